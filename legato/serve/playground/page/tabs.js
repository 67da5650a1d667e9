// One tab at a time follows the answers of a conversation: the server sends a response
// to one socket only, and the tab that asked last would starve the others.

/**
 * Do something once no other tab is at it.
 *
 * Pages that came over plain HTTP from another machine have no locks, and do it at once.
 */
export function alone(id, work) {
  const { locks } = navigator;
  return locks ? locks.request(`legato.${id}`, work) : work();
}
