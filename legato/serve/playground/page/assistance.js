// For those who do not see the page, and for the clipboard.

const SPOKEN_CHARACTERS = 400;
const COPIED_MS = 1500;

/** Says little: that an answer begins, and once, at its end, what it was. */
export class Announcer {
  #element;

  /** @param {Element} element A live region. */
  constructor(element) {
    this.#element = element;
  }

  say(text) {
    this.#element.textContent = text;
  }

  tellAnswer({ state, text, error }) {
    if (state === "failed") return this.say(error);
    const ending = state === "stopped" ? "Stopped. " : "";
    const words = text.split(/\s+/).filter(Boolean).length;
    if (text.length <= SPOKEN_CHARACTERS) this.say(`${ending}Legato said: ${text}`);
    else this.say(`${ending}The answer is complete: ${words} words, under the last heading.`);
  }
}

/** Copies a block of code, or a message, for every button that says so. */
export class Clipboard {
  #announcer;

  constructor(document, announcer) {
    this.#announcer = announcer;
    document.addEventListener("click", ({ target }) => {
      const button = target.closest?.("[data-copy]");
      if (button) this.#copy(button);
    });
  }

  async #copy(button) {
    const source =
      button.dataset.copy === "code"
        ? button.closest(".fence").querySelector("code").textContent
        : button.closest(".message").querySelector(".body").innerText;
    const done = (await write(source)) ? "Copied" : "Could not copy";
    const before = button.textContent;
    if (before !== "Copy") return;
    button.textContent = done;
    this.#announcer.say(done);
    setTimeout(() => (button.textContent = before), COPIED_MS);
  }
}

async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return writeBySelection(text);
  }
}

// Pages that came over plain HTTP from another machine have no clipboard of their own.
function writeBySelection(text) {
  const area = document.createElement("textarea");
  const focused = document.activeElement;
  area.className = "unseen";
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}
