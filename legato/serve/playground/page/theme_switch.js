// Light, dark, or as the system has it.

const KEPT = "legato.theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

export class ThemeSwitch {
  #button;
  #storage;

  /** @param {Element} button @param {Storage} storage */
  constructor(button, storage) {
    this.#button = button;
    this.#storage = storage;
    button.addEventListener("click", () => this.#choose(NEXT[this.#theme]));
    this.#label();
  }

  get #theme() {
    return document.documentElement.dataset.theme ?? "system";
  }

  #choose(theme) {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      this.#storage.setItem(KEPT, theme);
    } catch {
      // No room: it holds until the page is left.
    }
    this.#label();
  }

  #label() {
    const text = `Colours: ${this.#theme}; change to ${NEXT[this.#theme]}`;
    this.#button.setAttribute("aria-label", text);
    this.#button.title = text;
  }
}
