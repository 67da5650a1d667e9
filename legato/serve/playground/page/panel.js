// A side panel: beside the stage where there is room, above it on a narrow page, where
// it takes the focus and gives it back.

const NARROW = matchMedia("(max-width: 56rem)");

export class Panel {
  #element;
  #opener;
  #stage;
  #role;

  /** @param {{element: Element, opener: Element, closer: Element, stage: Element}} parts */
  constructor({ element, opener, closer, stage }) {
    this.#element = element;
    this.#opener = opener;
    this.#stage = stage;
    this.#role = element.role;
    opener.addEventListener("click", () => (this.shown ? this.close() : this.open()));
    closer.addEventListener("click", () => this.close());
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
    stage.addEventListener("pointerdown", () => this.isOver && this.close());
    NARROW.addEventListener("change", () => this.#mark());
  }

  get shown() {
    return this.#element.classList.contains("shown");
  }

  /** Whether it covers the stage. */
  get isOver() {
    return this.shown && NARROW.matches;
  }

  /** Show it; the focus goes along unless told otherwise. */
  open({ focus = true } = {}) {
    this.#element.classList.add("shown");
    this.#mark();
    if (focus) this.#element.querySelector("button, input, textarea").focus();
  }

  /** Hide it, and go back to the button that showed it. */
  close({ focus = true } = {}) {
    if (!this.shown) return;
    this.#element.classList.remove("shown");
    this.#mark();
    if (focus) this.#opener.focus();
  }

  // Nothing behind a panel can be reached while it is covered.
  #mark() {
    this.#opener.setAttribute("aria-expanded", String(this.shown));
    this.#element.role = this.isOver ? "dialog" : this.#role;
    this.#element.ariaModal = this.isOver ? "true" : null;
    const over = document.querySelector(".panel.shown") && NARROW.matches;
    for (const part of this.#stage.children) part.inert = Boolean(over);
  }
}

/** Whether panels cover the stage here. */
export const isNarrow = () => NARROW.matches;
