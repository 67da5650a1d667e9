// Conversations kept by the browser: bounded in number and size, oldest first to go.
// Each has an entry of its own, so that saving one does not write them all.

const INDEX = "legato.conversations";
const ENTRY = "legato.conversation.";

export class History {
  #storage;
  #maxConversations;
  #maxCharacters;

  /**
   * @param {Storage} storage localStorage, or what looks like it.
   * @param {{maxConversations?: number, maxCharacters?: number}} limits
   */
  constructor(storage, { maxConversations = 50, maxCharacters = 2_000_000 } = {}) {
    this.#storage = storage;
    this.#maxConversations = maxConversations;
    this.#maxCharacters = maxCharacters;
  }

  /** Entries {id, title, updated, size}, newest first. */
  list() {
    const index = this.#parse(INDEX);
    const entries = Array.isArray(index) ? index : [];
    return entries
      .filter((entry) => typeof entry?.id === "string")
      .sort((one, other) => other.updated - one.updated);
  }

  /** A conversation, or null if it is not kept (any more). */
  read(id) {
    const conversation = this.#parse(ENTRY + id);
    return Array.isArray(conversation?.messages) ? conversation : null;
  }

  /** Keep a conversation; false if the browser has no room for it. */
  write(conversation) {
    const text = JSON.stringify(conversation);
    const entries = this.list().filter(({ id }) => id !== conversation.id);
    const { id, title, updated } = conversation;
    entries.unshift({ id, title, updated, size: text.length });
    this.#trim(entries);
    for (;;) {
      try {
        this.#storage.setItem(INDEX, JSON.stringify(entries));
        this.#storage.setItem(ENTRY + id, text);
        return true;
      } catch {
        if (entries.length < 2) return false;
        this.#drop(entries);
      }
    }
  }

  /** Forget a conversation. */
  remove(id) {
    this.#storage.removeItem(ENTRY + id);
    const entries = this.list().filter((entry) => entry.id !== id);
    this.#storage.setItem(INDEX, JSON.stringify(entries));
  }

  /** Forget all of them. */
  clear() {
    for (const { id } of this.list()) this.#storage.removeItem(ENTRY + id);
    this.#storage.removeItem(INDEX);
  }

  #trim(entries) {
    const size = () => entries.reduce((sum, entry) => sum + entry.size, 0);
    while (
      entries.length > this.#maxConversations ||
      (entries.length > 1 && size() > this.#maxCharacters)
    ) {
      this.#drop(entries);
    }
  }

  #drop(entries) {
    this.#storage.removeItem(ENTRY + entries.pop().id);
  }

  #parse(name) {
    try {
      return JSON.parse(this.#storage.getItem(name));
    } catch {
      return null;
    }
  }
}

/** A storage that keeps things until the page is left. */
export class PageStorage {
  #items = new Map();

  getItem(name) {
    return this.#items.get(name) ?? null;
  }

  setItem(name, text) {
    this.#items.set(name, text);
  }

  removeItem(name) {
    this.#items.delete(name);
  }
}

/** The browser's storage of that name, or one for this page where it has none. */
export function storageOf(name) {
  try {
    const storage = globalThis[name];
    storage.getItem(INDEX);
    return storage;
  } catch {
    return new PageStorage();
  }
}
