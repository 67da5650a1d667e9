// What the browser keeps, within its bounds, and what is asked from it.

import assert from "node:assert/strict";
import test from "node:test";

import {
  answerAgain,
  ask,
  figures,
  isOpen,
  newConversation,
  shortRequest,
  take,
  wholeRequest,
} from "../../../legato/serve/playground/page/conversation.js";
import { History, PageStorage } from "../../../legato/serve/playground/page/history.js";

// A storage with room for so many characters, as browsers have.
class SmallStorage extends PageStorage {
  constructor(room) {
    super();
    this.room = room;
    this.sizes = new Map();
  }

  setItem(name, text) {
    const others = [...this.sizes].filter(([one]) => one !== name);
    const used = others.reduce((sum, [, size]) => sum + size, 0);
    if (used + text.length > this.room) throw new Error("QuotaExceededError");
    this.sizes.set(name, text.length);
    super.setItem(name, text);
  }

  removeItem(name) {
    this.sizes.delete(name);
    super.removeItem(name);
  }
}

const conversation = (id, text = "x") => ({
  id, title: `about ${id}`, updated: Number(id), messages: [{ role: "user", text }],
});
const ids = (history) => history.list().map(({ id }) => id);

test("what is kept is read again, newest first", () => {
  const history = new History(new PageStorage());
  for (const id of ["1", "3", "2"]) history.write(conversation(id));
  assert.deepEqual(ids(history), ["3", "2", "1"]);
  assert.deepEqual(history.read("2"), conversation("2"));
  assert.equal(history.read("4"), null);
});

test("the oldest go when there are too many, or they are too long", () => {
  const few = new History(new PageStorage(), { maxConversations: 2 });
  for (const id of ["1", "2", "3"]) few.write(conversation(id));
  assert.deepEqual(ids(few), ["3", "2"]);
  assert.equal(few.read("1"), null);
  const short = new History(new PageStorage(), { maxCharacters: 500 });
  for (const id of ["1", "2", "3"]) short.write(conversation(id, "x".repeat(150)));
  assert.deepEqual(ids(short), ["3", "2"]);
});

test("a browser without room loses the oldest, and never throws", () => {
  const history = new History(new SmallStorage(800));
  for (const id of ["1", "2", "3"]) assert.equal(history.write(conversation(id, "x".repeat(150))), true);
  assert.deepEqual(ids(history), ["3", "2"]);
  assert.equal(history.write(conversation("4", "x".repeat(900))), false);
});

test("forgetting leaves nothing behind", () => {
  const storage = new SmallStorage(10_000);
  const history = new History(storage);
  for (const id of ["1", "2"]) history.write(conversation(id));
  history.remove("1");
  assert.deepEqual(ids(history), ["2"]);
  history.clear();
  assert.equal(storage.sizes.size, 0);
});

test("a spoiled entry is as good as none", () => {
  const storage = new PageStorage();
  storage.setItem("legato.conversations", '{"a": 1');
  storage.setItem("legato.conversation.1", "7");
  const history = new History(storage);
  assert.deepEqual(history.list(), []);
  assert.equal(history.read("1"), null);
});

function answered(talk, text, id) {
  const answer = ask(talk, text);
  take(answer, { type: "response.created", sequence_number: 0, response: { id } }, 1000);
  take(answer, { type: "response.output_text.delta", sequence_number: 1, delta: "A" }, 1200);
  take(answer, end("completed", 2), 2200);
  return answer;
}

const end = (status, number, fields = {}) => ({
  type: `response.${status}`,
  sequence_number: number,
  response: { id: "resp", status, usage: { output_tokens: 11 }, ...fields },
});

test("an answer takes events and knows where it stands", () => {
  const talk = newConversation();
  const answer = ask(talk, "  How  are\nyou? ");
  assert.equal(talk.title, "How are you?");
  assert.equal(answer.state, "asked");
  take(answer, { type: "response.created", sequence_number: 0, response: { id: "resp_1" } });
  take(answer, { type: "response.output_text.delta", sequence_number: 1, delta: "Fi" });
  take(answer, { type: "response.output_text.delta", sequence_number: 2, delta: "ne" });
  assert.deepEqual([answer.text, answer.sequence, answer.responseId], ["Fine", 2, "resp_1"]);
  assert.ok(isOpen(answer));
  take(answer, end("completed", 3));
  assert.equal(answer.state, "completed");
});

test("being stopped is told from being cut", () => {
  const why = { incomplete_details: { reason: "max_output_tokens" } };
  for (const [stopping, state] of [[true, "stopped"], [undefined, "cut"]]) {
    const answer = { state: "streaming", text: "", stopping };
    take(answer, end("incomplete", 5, why));
    assert.equal(answer.state, state);
  }
});

test("the next turn sends only what is new, or all of it", () => {
  const talk = newConversation();
  answered(talk, "one", "resp_1");
  assert.equal(shortRequest({ messages: talk.messages.slice(0, 2) }), null);
  ask(talk, "two");
  assert.deepEqual(shortRequest(talk), {
    previous_response_id: "resp_1",
    input: [{ role: "user", content: "two" }],
  });
  assert.deepEqual(wholeRequest(talk).input, [
    { role: "user", content: "one" },
    { role: "assistant", content: "A" },
    { role: "user", content: "two" },
  ]);
});

test("answering again continues from the turn before", () => {
  const talk = newConversation();
  answered(talk, "one", "resp_1");
  answered(talk, "two", "resp_2");
  answerAgain(talk, 3);
  assert.equal(talk.messages.length, 4);
  assert.equal(shortRequest(talk).previous_response_id, "resp_1");
  answerAgain(talk, 1);
  assert.equal(shortRequest(talk), null);
});

test("figures say when it began and how fast it was", () => {
  const talk = newConversation();
  const answer = answered(talk, "one", "resp_1");
  answer.askedAt = 950;
  assert.equal(figures(answer), "first token after 250 ms · 10 tokens/s · 11 tokens");
});
