// The playground: wires its parts, and owns which conversation is open.

import { LegatoClient } from "../legato.js";
import { Announcer, Clipboard } from "./assistance.js";
import { Composer } from "./composer.js";
import { Controls } from "./controls.js";
import { answerAgain, ask, isOpen, newConversation } from "./conversation.js";
import { Door } from "./door.js";
import { History, storageOf } from "./history.js";
import { HistoryList } from "./history_list.js";
import { isNarrow, Panel } from "./panel.js";
import { Run } from "./run.js";
import { Scroll } from "./scroll.js";
import { alone } from "./tabs.js";
import { ThemeSwitch } from "./theme_switch.js";
import { Transcript } from "./transcript.js";

const $ = (id) => document.getElementById(id);
const CURRENT = "legato.current";

class Playground {
  #local = storageOf("localStorage");
  #session = storageOf("sessionStorage");
  #history = new History(this.#local);
  #door = new Door(this.#session);
  #announcer = new Announcer($("announcer"));
  #controls = new Controls($("controls"), this.#local);
  #runs = new Map(); // conversation id -> Run
  #waiting = new Set(); // ids of conversations that another tab may be following
  #conversation = newConversation();
  #client = null;
  #scroll = new Scroll($("scroller"), $("latest"));
  #transcript = new Transcript($("transcript"), {
    edit: (place, text) => this.#edit(place, text),
    again: (place) => this.#begin(answerAgain(this.#conversation, place)),
    drawn: () => this.#scroll.follow(),
  });
  #composer = new Composer({
    form: $("composer"),
    onSend: (text) => this.#ask(text),
    onStop: () => this.#runs.get(this.#conversation.id)?.stop(),
    onUp: () => this.#transcript.editLast(),
  });
  #list = new HistoryList($("conversations"), $("clear"), {
    open: (id) => this.#open(this.#history.read(id), { focus: true }),
    remove: (id) => this.#remove(id),
    clear: () => this.#clear(),
  });
  #panels = Object.fromEntries(
    ["history", "settings"].map((name) => [
      name,
      new Panel({
        element: $(name),
        opener: $(`${name}-open`),
        closer: $(`${name}-close`),
        stage: $("stage"),
      }),
    ]),
  );

  async start() {
    new ThemeSwitch($("theme"), this.#local);
    new Clipboard(document, this.#announcer);
    $("new-chat").addEventListener("click", () => this.#open(newConversation(), { focus: true }));
    $("suggestions").addEventListener("click", ({ target }) => {
      if (target.matches("button")) this.#ask(target.textContent);
    });
    $("to-answer").addEventListener("click", (event) => {
      event.preventDefault();
      this.#transcript.focusLast();
    });
    $("key-form").addEventListener("submit", (event) => this.#useKey(event));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#runs.get(this.#conversation.id)?.stop();
    });
    addEventListener("pagehide", () => {
      for (const run of this.#runs.values()) run.keep();
    });
    if (!isNarrow()) this.#panels.history.open({ focus: false });
    this.#conversation = this.#history.read(this.#session.getItem(CURRENT)) ?? this.#conversation;
    this.#open(this.#conversation);
    if (!isNarrow()) this.#composer.focus();
    await this.#enter();
  }

  // -- The server ---------------------------------------------------------------------

  async #enter() {
    const told = { loading: "The model is loading…", away: "The server cannot be reached…" };
    const answer = await this.#door.enter(({ is }) => this.#notice(told[is]));
    $("key-form").hidden = answer.is !== "locked";
    $("scroller").hidden = $("dock").hidden = answer.is === "locked";
    if (answer.is === "locked") {
      this.#notice(this.#door.key ? "This key is not known here." : "", "bad");
      $("key").focus();
      return;
    }
    this.#notice(answer.is === "open" ? "" : answer.why, "bad");
    if (answer.is !== "open") return;
    $("model").textContent = answer.model;
    this.#client = new LegatoClient({ apiKey: this.#door.key });
    this.#client.addEventListener("state", () => {
      this.#notice(this.#client.state === "waiting" ? "Connection lost. Connecting again…" : "");
    });
    this.#resumeOpen();
  }

  async #useKey(event) {
    event.preventDefault();
    this.#door.key = $("key").value;
    $("key").value = "";
    await this.#enter();
    if (this.#client) this.#composer.focus();
  }

  #notice(text, kind = "") {
    const notice = $("notice");
    notice.hidden = !text;
    notice.className = kind;
    if (notice.textContent !== text) notice.textContent = text ?? "";
  }

  // -- Answers ------------------------------------------------------------------------

  #ask(text) {
    if (!this.#mayAsk()) return;
    this.#begin(ask(this.#conversation, text));
    this.#composer.clear();
  }

  #edit(place, text) {
    if (!this.#mayAsk()) return;
    this.#conversation.messages.length = place;
    this.#begin(ask(this.#conversation, text));
    this.#composer.focus();
  }

  #mayAsk() {
    const { invalid } = this.#controls;
    if (invalid) {
      this.#panels.settings.open({ focus: false });
      invalid.reportValidity();
      return false;
    }
    const { id } = this.#conversation;
    return Boolean(this.#client) && !this.#runs.has(id) && !this.#waiting.has(id);
  }

  #begin() {
    const run = this.#newRun(this.#conversation);
    this.#announcer.say("Answering.");
    this.#scroll.toEnd();
    const settings = this.#controls.read();
    this.#track(run, alone(run.conversation.id, () => run.ask(settings)));
  }

  // The open conversation may have an answer that was under way when its page was left,
  // or that still is, in another tab.
  #resumeOpen() {
    const { id, messages } = this.#conversation;
    const last = messages.at(-1);
    const taken = this.#runs.has(id) || this.#waiting.has(id);
    if (!this.#client || !last || !isOpen(last) || taken) return;
    this.#waiting.add(id);
    alone(id, () => {
      this.#waiting.delete(id);
      const latest = this.#history.read(id);
      if (!latest) return;
      if (id === this.#conversation.id) this.#conversation = latest;
      if (!isOpen(latest.messages.at(-1))) return this.#show();
      const run = this.#newRun(latest);
      return this.#track(run, run.resume());
    });
  }

  #newRun(conversation) {
    return new Run({
      client: this.#client,
      history: this.#history,
      conversation,
      onChange: (run) => run.conversation === this.#conversation && this.#transcript.refresh(),
    });
  }

  async #track(run, ending) {
    const { id } = run.conversation;
    this.#runs.set(id, run);
    this.#show();
    await ending;
    this.#runs.delete(id);
    this.#show();
    if (run.conversation === this.#conversation) this.#announcer.tellAnswer(run.message);
    if (!run.kept) this.#notice("The browser has no room to keep this conversation.", "bad");
  }

  // -- Conversations ------------------------------------------------------------------

  #open(conversation, { focus = false } = {}) {
    if (!conversation) return;
    // One that is being answered is the very same object, so that its text is too.
    this.#conversation = this.#runs.get(conversation.id)?.conversation ?? conversation;
    this.#session.setItem(CURRENT, this.#conversation.id);
    this.#show();
    this.#scroll.toEnd();
    this.#resumeOpen();
    if (this.#panels.history.isOver) this.#panels.history.close({ focus: false });
    if (focus) this.#composer.focus();
  }

  #remove(id) {
    this.#runs.get(id)?.forget();
    this.#history.remove(id);
    if (id === this.#conversation.id) this.#open(newConversation());
    this.#show();
  }

  #clear() {
    for (const run of this.#runs.values()) run.forget();
    this.#history.clear();
    this.#open(newConversation(), { focus: true });
  }

  #show() {
    const { messages, id } = this.#conversation;
    $("welcome").hidden = messages.length > 0;
    this.#transcript.show(messages);
    this.#composer.answering = this.#runs.has(id);
    this.#list.show(this.#history.list(), id, (one) => this.#runs.has(one));
  }
}

new Playground().start();
