// System prompt and sampling: what is filled in travels with a request, what is empty
// is left to the model.

const KEPT = "legato.settings";

export class Controls {
  #form;
  #storage;

  /** @param {HTMLFormElement} form @param {Storage} storage */
  constructor(form, storage) {
    this.#form = form;
    this.#storage = storage;
    this.#restore();
    form.addEventListener("input", () => this.#keep());
    form.addEventListener("reset", () => setTimeout(() => this.#keep()));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** The first field whose value is out of its range, or null. */
  get invalid() {
    return this.#form.querySelector(":invalid:not(fieldset)");
  }

  /** Fields of the request. */
  read() {
    const fields = {};
    for (const [name, value] of this.#values()) {
      if (name === "stop") fields.stop = value.split("\n").filter(Boolean);
      else fields[name] = name === "instructions" ? value : Number(value);
    }
    return fields;
  }

  #values() {
    return [...new FormData(this.#form)].filter(([, value]) => value.trim());
  }

  #keep() {
    try {
      this.#storage.setItem(KEPT, JSON.stringify(Object.fromEntries(this.#values())));
    } catch {
      // No room: they hold until the page is left.
    }
  }

  #restore() {
    let kept = {};
    try {
      kept = JSON.parse(this.#storage.getItem(KEPT)) ?? {};
    } catch {
      return;
    }
    for (const [name, value] of Object.entries(kept)) {
      const field = this.#form.elements.namedItem(name);
      if (field && typeof value === "string") field.value = value;
    }
  }
}
