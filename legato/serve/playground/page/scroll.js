// Follows the newest text for as long as the reader does.

const NEAR_PX = 48;

export class Scroll {
  #element;
  #button;
  #following = true;

  /** @param {Element} element It scrolls. @param {Element} button Leads to the end. */
  constructor(element, button) {
    this.#element = element;
    this.#button = button;
    element.addEventListener("scroll", () => this.#look(), { passive: true });
    button.addEventListener("click", () => {
      this.toEnd();
      element.focus();
    });
    new ResizeObserver(() => this.follow()).observe(element);
  }

  /** Text may have been added: stay at the end, if that is where one was. */
  follow() {
    if (this.#following) this.#element.scrollTop = this.#element.scrollHeight;
    this.#button.hidden = this.#following;
  }

  /** Go to the end. */
  toEnd() {
    this.#following = true;
    this.follow();
  }

  #look() {
    const { scrollTop, scrollHeight, clientHeight } = this.#element;
    this.#following = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    this.#button.hidden = this.#following;
  }
}
