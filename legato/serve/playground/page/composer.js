// Where one writes: sends with Enter where there is a keyboard, stops, keeps a draft.

export class Composer {
  #area;
  #send;
  #stop;
  #onSend;

  /** @param {{form: HTMLFormElement, onSend: Function, onStop: Function, onUp: Function}} parts */
  constructor({ form, onSend, onStop, onUp }) {
    this.#area = form.querySelector("textarea");
    [this.#send, this.#stop] = form.querySelectorAll("button");
    this.#onSend = onSend;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#stop.addEventListener("click", () => {
      onStop();
      this.focus();
    });
    this.#area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter" && !event.shiftKey && matchMedia("(hover: hover)").matches) {
        event.preventDefault();
        this.#submit();
      } else if (event.key === "ArrowUp" && !this.#area.value) {
        event.preventDefault();
        onUp();
      }
    });
  }

  /** Whether the button stops instead of sending. The focus stays where it was. */
  set answering(answering) {
    const focused = document.activeElement;
    this.#send.hidden = answering;
    this.#stop.hidden = !answering;
    if (focused === this.#send || focused === this.#stop) this.focus();
  }

  focus() {
    this.#area.focus();
  }

  clear() {
    this.#area.value = "";
  }

  #submit() {
    const text = this.#area.value.trim();
    if (text && this.#stop.hidden) this.#onSend(text);
  }
}
