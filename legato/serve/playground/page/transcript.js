// The conversation as one reads it: an article for each message. Only what changed is
// drawn again, at most once a frame.

import { figures, isOpen } from "./conversation.js";
import { Markdown } from "./markdown.js";
import { Painter } from "./painter.js";

export class Transcript {
  #element;
  #on;
  #views = [];
  #frame = null;

  /**
   * @param {Element} element Empty.
   * @param {{edit: Function, again: Function, drawn: Function}} on edit(place, text),
   *   again(place), drawn() after every drawing.
   */
  constructor(element, on) {
    this.#element = element;
    this.#on = on;
  }

  /** Show these messages; those already shown stay. */
  show(messages) {
    const kept = this.#views.findIndex((view, place) => view.message !== messages[place]);
    if (kept >= 0) for (const view of this.#views.splice(kept)) view.element.remove();
    for (const message of messages.slice(this.#views.length)) {
      const place = this.#views.length;
      const view = message.role === "user" ? this.#question(message, place) : this.#answer(message, place);
      this.#views.push(view);
      this.#element.append(view.element);
    }
    this.refresh();
  }

  /** Draw the last message again with the next frame. */
  refresh() {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null;
      for (const view of this.#views) if (view.open) view.draw();
      this.#on.drawn();
    });
  }

  /** Put the focus on the last message. */
  focusLast() {
    this.#views.at(-1)?.element.focus();
  }

  /** Begin to edit the last question. */
  editLast() {
    this.#views.findLast(({ message }) => message.role === "user")?.edit();
  }

  #question(message, place) {
    const { element, body, foot } = article("user", "You");
    body.textContent = message.text;
    const edit = () => this.#edit(element, message, place);
    foot.append(button("Edit", edit), copyButton());
    return { message, element, edit, open: false };
  }

  #edit(element, message, place) {
    if (element.querySelector(".edit")) return;
    const form = document.createElement("form");
    form.className = "edit";
    const area = document.createElement("textarea");
    area.value = message.text;
    area.required = true;
    area.setAttribute("aria-label", "Your message");
    const rest = [...element.children].slice(1);
    const leave = () => {
      form.remove();
      for (const part of rest) part.hidden = false;
      rest.at(-1).firstChild.focus();
    };
    const send = button("Send", () => {}, "strong");
    send.type = "submit";
    form.append(area, button("Cancel", leave), send);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (!area.value.trim()) return;
      leave();
      this.#on.edit(place, area.value);
    });
    form.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        leave();
      } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        form.requestSubmit();
      }
    });
    for (const part of rest) part.hidden = true;
    element.append(form);
    area.focus();
  }

  #answer(message, place) {
    const { element, body, foot } = article("assistant", "Legato");
    body.classList.add("prose");
    element.setAttribute("aria-busy", String(isOpen(message)));
    const figure = span("fine figures");
    const error = document.createElement("p");
    error.className = "error";
    error.hidden = true;
    element.insertBefore(error, foot);
    const copy = copyButton();
    const again = button("Regenerate", () => this.#on.again(place), "plain");
    foot.append(figure, copy, again);
    const markdown = new Markdown();
    const painter = new Painter(body);
    let written = 0;
    const view = { message, element, open: true };
    view.draw = () => {
      const streaming = isOpen(message);
      if (message.text.length > written) markdown.write(message.text.slice(written));
      written = message.text.length;
      if (!streaming) markdown.end();
      painter.paint(markdown);
      element.setAttribute("aria-busy", String(streaming));
      setText(figure, figures(message));
      copy.hidden = streaming || !message.text;
      again.hidden = streaming;
      error.hidden = !message.error;
      setText(error, message.error ?? "");
      view.open = streaming;
    };
    return view;
  }
}

function article(role, name) {
  const element = document.createElement("article");
  element.className = `message ${role}`;
  element.tabIndex = -1;
  const title = document.createElement("h2");
  title.className = "unseen";
  title.textContent = `${name} said`;
  element.setAttribute("aria-label", `${name} said`);
  const body = document.createElement("div");
  body.className = "body";
  const foot = document.createElement("footer");
  element.append(title, body, foot);
  return { element, body, foot };
}

function copyButton() {
  const copy = button("Copy", () => {}, "plain");
  copy.dataset.copy = "message";
  return copy;
}

function button(text, onClick, kind = "plain") {
  const element = document.createElement("button");
  element.type = "button";
  element.className = kind;
  element.textContent = text;
  element.addEventListener("click", onClick);
  return element;
}

function span(className) {
  const element = document.createElement("span");
  element.className = className;
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
