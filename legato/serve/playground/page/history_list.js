// The conversations that are kept, to open or to delete.

export class HistoryList {
  #element;
  #clear;
  #on;

  /**
   * @param {Element} element A list. @param {Element} clear Deletes all.
   * @param {{open: Function, remove: Function, clear: Function}} on
   */
  constructor(element, clear, on) {
    this.#element = element;
    this.#clear = clear;
    this.#on = on;
    clear.addEventListener("click", () => {
      if (confirm("Delete all conversations kept in this browser?")) on.clear();
    });
  }

  /** Show entries, which of them is open, and which are being answered. */
  show(entries, current, isBusy) {
    this.#clear.hidden = !entries.length;
    const place = this.#focusedPlace();
    this.#element.replaceChildren(
      ...entries.map((entry) => this.#item(entry, entry.id === current, isBusy(entry.id))),
    );
    if (place >= 0) this.#buttons()[Math.min(place, this.#buttons().length - 1)]?.focus();
  }

  #buttons() {
    return [...this.#element.querySelectorAll(".open")];
  }

  #focusedPlace() {
    const item = document.activeElement?.closest?.("#conversations li");
    return item ? [...this.#element.children].indexOf(item) : -1;
  }

  #item({ id, title }, isCurrent, isBusy) {
    const item = document.createElement("li");
    const open = document.createElement("button");
    open.type = "button";
    open.className = isBusy ? "open busy" : "open";
    open.textContent = title || "Untitled";
    if (isCurrent) open.setAttribute("aria-current", "true");
    if (isBusy) open.setAttribute("aria-label", `${title}, being answered`);
    open.addEventListener("click", () => this.#on.open(id));
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "icon";
    remove.setAttribute("aria-label", `Delete ${title}`);
    remove.append(icon("i-close"));
    remove.addEventListener("click", () => this.#on.remove(id));
    item.append(open, remove);
    return item;
  }
}

function icon(name) {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(namespace, "use");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}
