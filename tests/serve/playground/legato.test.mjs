// The client against a socket that the test holds by both ends.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, mock, test } from "node:test";

import * as exported from "../../../legato/serve/playground/legato.js";
import {
  ClientClosed,
  ConnectionLost,
  LegatoClient,
  LegatoError,
  Overloaded,
  RequestRefused,
  ResponseFailed,
  ResponseLost,
} from "../../../legato/serve/playground/legato.js";
import { FakeSocket, Script, settle } from "./fake_socket.mjs";

const URL = "ws://server/v1/responses";
let client;

beforeEach(() => {
  FakeSocket.made = [];
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
});
afterEach(() => {
  client?.close();
  mock.timers.reset();
});

function connect(options = {}) {
  client = new LegatoClient({ url: URL, WebSocket: FakeSocket, ...options });
  return client;
}

// Ask, and have the server begin: returns answer, socket, script and what is read.
async function begin(request = { input: "hi" }, options = {}, clientOptions = {}) {
  const answer = connect(clientOptions).respond(request, options);
  const socket = FakeSocket.last;
  socket.open();
  const script = new Script("resp_1", answer.lane);
  const read = collect(answer);
  socket.say(script.created());
  await settle();
  return { answer, socket, script, read };
}

function collect(answer) {
  const read = { events: [], text: "", error: null, done: false };
  read.finished = (async () => {
    try {
      for await (const event of answer) {
        read.events.push(event);
        if (event.delta) read.text += event.delta;
      }
    } catch (error) {
      read.error = error;
    }
    read.done = true;
  })();
  return read;
}

// Lose the connection and come back.
async function reconnect(socket, code) {
  const before = FakeSocket.made.length;
  socket.drop(code);
  mock.timers.tick(10_000);
  assert.equal(FakeSocket.made.length, before + 1);
  FakeSocket.last.open();
  await settle();
  return FakeSocket.last;
}

test("a request is sent once the socket is open, in a lane of its own", () => {
  const one = connect().respond({ input: "a", model: "m" });
  const two = client.respond({ input: "b" }, { resumable: false });
  assert.equal(FakeSocket.made.length, 1);
  FakeSocket.last.open();
  const [first, second] = FakeSocket.last.sent;
  assert.deepEqual(first, {
    legato: 1, type: "response.create", input: "a", model: "m", stream_id: one.lane, resumable: true,
  });
  assert.equal(second.resumable, undefined);
  assert.notEqual(one.lane, two.lane);
});

test("events come in order, and the response at the end", async () => {
  const { answer, socket, script, read } = await begin();
  const response = answer.response();
  for (const text of ["a", "b"]) socket.say(script.delta(text));
  socket.say(script.end());
  await read.finished;
  assert.equal(read.text, "ab");
  assert.deepEqual(read.events.map((event) => event.sequence_number), [0, 1, 2, 3]);
  assert.equal((await response).status, "completed");
  assert.equal((await answer.response()).id, "resp_1");
});

test("text can be read alone", async () => {
  const answer = connect().respond({ input: "hi" });
  FakeSocket.last.open();
  const script = new Script("resp_1", answer.lane);
  for (const event of [script.created(), script.delta("a"), script.delta("b"), script.end()]) {
    FakeSocket.last.say(event);
  }
  const texts = [];
  for await (const text of answer.text()) texts.push(text);
  assert.deepEqual(texts, ["a", "b"]);
});

test("answers side by side do not mix", async () => {
  const one = connect().respond({ input: "1" });
  const two = client.respond({ input: "2" });
  const [first, second] = [collect(one), collect(two)];
  FakeSocket.last.open();
  const scripts = [new Script("resp_1", one.lane), new Script("resp_2", two.lane)];
  for (const script of scripts) FakeSocket.last.say(script.created());
  for (const text of ["x", "y"]) scripts.forEach((s, i) => FakeSocket.last.say(s.delta(text + i)));
  for (const script of scripts) FakeSocket.last.say(script.end());
  await Promise.all([first.finished, second.finished]);
  assert.deepEqual([first.text, second.text], ["x0y0", "x1y1"]);
});

test("requests of one lane run one after another", async () => {
  const one = connect().respond({ input: "1" }, { lane: "a" });
  const two = client.respond({ input: "2" }, { lane: "a" });
  FakeSocket.last.open();
  const script = new Script("resp_1", "a");
  FakeSocket.last.say(script.created());
  assert.equal(FakeSocket.last.frames("create").length, 1);
  FakeSocket.last.say(script.end());
  assert.equal(FakeSocket.last.frames("create")[1].input, "2");
  assert.equal((await one.response()).status, "completed");
  const refusal = { type: "error", status: 400, stream_id: "a", error: { code: "invalid_value", message: "no" } };
  FakeSocket.last.say(refusal);
  await assert.rejects(two.response(), { name: "RequestRefused", message: "no" });
});

test("after a lost connection it asks for what comes after the last event", async () => {
  const { answer, socket, script, read } = await begin();
  socket.say(script.delta("a"));
  const next = await reconnect(socket);
  assert.deepEqual(next.sent, [
    { legato: 1, type: "response.resume", response_id: "resp_1", starting_after: 1 },
  ]);
  next.say({ type: "response.resumed", legato: 1, response_id: "resp_1", starting_after: 1 });
  next.say(script.delta("b"));
  next.say(script.end());
  await read.finished;
  assert.equal(read.text, "ab");
  assert.equal(answer.sequence, 3);
});

test("an event that comes twice is seen once", async () => {
  const { socket, script, read } = await begin();
  const delta = script.delta("a");
  socket.say(delta);
  const next = await reconnect(socket);
  next.say(delta);
  next.say(script.end());
  await read.finished;
  assert.equal(read.text, "a");
});

test("a gap between events is never shown: the rest is asked for again", async () => {
  const { socket, script, read } = await begin();
  const missing = script.delta("a");
  const next = script.delta("b");
  socket.say(next);
  mock.timers.tick(10_000);
  FakeSocket.last.open();
  assert.equal(FakeSocket.last.frames("resume")[0].starting_after, 0);
  for (const event of [missing, next, script.end()]) FakeSocket.last.say(event);
  await read.finished;
  assert.equal(read.text, "ab");
});

test("a request that was not begun when the connection was lost is sent again", async () => {
  const answer = connect().respond({ input: "hi" });
  FakeSocket.last.open();
  const next = await reconnect(FakeSocket.last);
  assert.equal(next.frames("create")[0].input, "hi");
  const script = new Script("resp_2", answer.lane);
  next.say(script.created());
  next.say(script.end());
  assert.equal((await answer.response()).id, "resp_2");
});

test("it waits longer and longer between attempts, and not for ever", async () => {
  const { socket, read } = await begin({}, {}, { patienceMs: 30_000 });
  const states = [];
  client.addEventListener("state", () => states.push(client.state));
  socket.drop();
  const began = Date.now();
  const attempts = [];
  while (!read.done && Date.now() - began < 120_000) {
    const made = FakeSocket.made.length;
    mock.timers.tick(50);
    if (FakeSocket.made.length > made) {
      attempts.push(Date.now() - began);
      FakeSocket.last.drop();
    }
    await settle();
  }
  assert.ok(read.error instanceof ConnectionLost);
  assert.ok(attempts[0] <= 250);
  assert.ok(attempts.length >= 6 && attempts.length <= 16, `${attempts}`);
  assert.ok(Date.now() - began >= 30_000);
  assert.deepEqual(states.slice(0, 3), ["waiting", "connecting", "waiting"]);
  assert.equal(client.state, "idle");
});

test("after it gave up, a new request connects anew", async () => {
  const { socket, read } = await begin({}, {}, { patienceMs: 0 });
  socket.drop();
  await read.finished;
  assert.ok(read.error instanceof ConnectionLost);
  client.respond({ input: "again" });
  FakeSocket.last.open();
  assert.equal(FakeSocket.last.frames("create")[0].input, "again");
});

test("a handshake that hangs is given up for another", async () => {
  connect().respond({ input: "hi" });
  const [first] = FakeSocket.made;
  mock.timers.tick(10_000);
  assert.equal(first.closed, 1005);
  mock.timers.tick(300);
  assert.equal(FakeSocket.made.length, 2);
});

test("when the server is silent it is asked, and left if it says nothing", async () => {
  const { socket, script, read } = await begin();
  mock.timers.tick(20_000);
  assert.equal(socket.sent.at(-1).type, "session.authenticate");
  socket.say({ type: "session.authenticated", legato: 1 });
  mock.timers.tick(20_000);
  assert.equal(socket.closed, null);
  mock.timers.tick(20_000);
  assert.equal(socket.closed, 1005);
  mock.timers.tick(1_000);
  FakeSocket.last.open();
  FakeSocket.last.say(script.end());
  await read.finished;
  assert.equal(read.error, null);
});

test("an idle connection that is lost is not opened again until it is needed", async () => {
  const { socket, script, read } = await begin();
  socket.say(script.end());
  await read.finished;
  socket.drop(1012);
  mock.timers.tick(60_000);
  assert.equal(FakeSocket.made.length, 1);
  assert.equal(client.state, "idle");
});

test("cancel ends the response on the server, and the answer with its last event", async () => {
  const { answer, socket, script, read } = await begin();
  answer.cancel();
  answer.cancel();
  assert.equal(socket.frames("cancel")[0].response_id, "resp_1");
  socket.say(script.end("cancelled"));
  await read.finished;
  assert.equal((await answer.response()).status, "cancelled");
  assert.equal(read.error, null);
});

test("cancel before the response has an id names the lane", async () => {
  const answer = connect().respond({ input: "hi" });
  FakeSocket.last.open();
  answer.cancel();
  assert.equal(FakeSocket.last.frames("cancel")[0].stream_id, answer.lane);
});

test("cancel before anything was sent sends nothing", async () => {
  const answer = connect().respond({ input: "hi" });
  answer.cancel();
  assert.equal((await answer.response()).status, "cancelled");
  FakeSocket.last.open();
  assert.deepEqual(FakeSocket.last.sent, []);
});

test("a cancel while the connection is lost is made up for", async () => {
  const { answer, socket, read, script } = await begin();
  socket.drop();
  answer.cancel();
  mock.timers.tick(1_000);
  FakeSocket.last.open();
  assert.deepEqual(FakeSocket.last.sent.map(({ type }) => type), ["response.resume", "response.cancel"]);
  FakeSocket.last.say(script.end("cancelled"));
  await read.finished;
  assert.equal(read.error, null);
});

test("leaving the loop early cancels", async () => {
  const answer = connect().respond({ input: "hi" });
  FakeSocket.last.open();
  const script = new Script("resp_1", answer.lane);
  FakeSocket.last.say(script.created());
  FakeSocket.last.say(script.delta("a"));
  for await (const _ of answer.text()) break;
  assert.equal(FakeSocket.last.frames("cancel").length, 1);
});

test("stop and update name the response", async () => {
  const { answer, socket } = await begin();
  answer.update({ max_output_tokens: 5 });
  answer.stop();
  const [update] = socket.frames("update");
  assert.deepEqual(update, { legato: 1, type: "response.update", response_id: "resp_1", max_output_tokens: 5 });
  assert.equal(socket.frames("stop")[0].response_id, "resp_1");
});

test("an aborted signal cancels, and the answer fails with its reason", async () => {
  const abort = new AbortController();
  const { socket, read } = await begin({ input: "hi" }, { signal: abort.signal });
  abort.abort();
  await read.finished;
  assert.equal(read.error.name, "AbortError");
  assert.equal(socket.frames("cancel").length, 1);
  const late = client.respond({ input: "hi" }, { signal: abort.signal });
  await assert.rejects(late.response(), { name: "AbortError" });
  assert.equal(socket.frames("create").length, 1);
});

test("a refusal is typed and says which field", async () => {
  const answer = connect().respond({ input: "hi" });
  FakeSocket.last.open();
  const error = { code: "invalid_value", message: "too hot", param: "temperature" };
  FakeSocket.last.say({ type: "error", status: 400, stream_id: answer.lane, error });
  const refused = await answer.response().catch((caught) => caught);
  assert.ok(refused instanceof RequestRefused && refused instanceof LegatoError);
  assert.deepEqual([refused.code, refused.param, refused.status], ["invalid_value", "temperature", 400]);
});

test("a server that is full says when to try again", async () => {
  const answer = connect().respond({ input: "hi" });
  FakeSocket.last.open();
  const error = { code: "rate_limit_exceeded", message: "full", headers: { "retry-after": "3" } };
  FakeSocket.last.say({ type: "error", status: 429, stream_id: answer.lane, error });
  const refused = await answer.response().catch((caught) => caught);
  assert.ok(refused instanceof Overloaded);
  assert.equal(refused.retryAfterS, 3);
});

test("a response that fails has its reason and what there is of it", async () => {
  const { socket, script, read } = await begin();
  socket.say({
    type: "error", status: 504, error: { code: "deadline_exceeded", message: "too late" },
    stream_id: script.lane, sequence_number: script.number++,
  });
  socket.say(script.end("failed", { error: { code: "server_error", message: "x" } }));
  await read.finished;
  assert.ok(read.error instanceof ResponseFailed);
  assert.deepEqual([read.error.code, read.error.message], ["deadline_exceeded", "too late"]);
  assert.equal(read.error.response.id, "resp_1");
});

test("a response that the server no longer has is lost", async () => {
  const { socket, read } = await begin();
  const next = await reconnect(socket);
  next.say({ type: "error", status: 404, response_id: "resp_1", error: { code: "response_not_found", message: "gone" } });
  await read.finished;
  assert.ok(read.error instanceof ResponseLost);
});

test("a key that browsers can offer travels as a subprotocol, beside one to choose", () => {
  connect({ apiKey: "sk-1" }).respond({ input: "hi" });
  assert.deepEqual(FakeSocket.last.protocols, ["legato.json", "openai-insecure-api-key.sk-1"]);
});

test("any other key is the first frame", () => {
  connect({ apiKey: "sk/1=" }).respond({ input: "hi" });
  assert.deepEqual(FakeSocket.last.protocols, []);
  FakeSocket.last.open();
  assert.deepEqual(FakeSocket.last.sent[0], { legato: 1, type: "session.authenticate", api_key: "sk/1=" });
  assert.equal(FakeSocket.last.sent[1].type, "response.create");
});

test("a key that does not fit fails every answer at once", async () => {
  const answer = connect({ apiKey: "sk/1" }).respond({ input: "hi" });
  FakeSocket.last.open();
  FakeSocket.last.say({ type: "error", status: 401, error: { code: "invalid_api_key", message: "no" } });
  FakeSocket.last.drop(1008);
  await assert.rejects(answer.response(), { name: "RequestRefused", code: "invalid_api_key" });
  mock.timers.tick(60_000);
  assert.equal(FakeSocket.made.length, 1);
});

test("a request over the server's limit is refused, and not sent for ever", async () => {
  const answer = connect().respond({ input: "hi" });
  FakeSocket.last.open();
  FakeSocket.last.drop(1009);
  await assert.rejects(answer.response(), { code: "message_too_large" });
});

test("credit is granted as the text is read", async () => {
  const answer = connect().respond({ input: "hi" }, { credit: 4 });
  FakeSocket.last.open();
  assert.equal(FakeSocket.last.frames("create")[0].credit, 4);
  const script = new Script("resp_1", answer.lane);
  FakeSocket.last.say(script.created());
  for (const text of "abcd") FakeSocket.last.say(script.delta(text));
  await settle();
  assert.deepEqual(FakeSocket.last.frames("credit"), []);
  const text = answer.text();
  for (let count = 0; count < 4; count += 1) await text.next();
  assert.deepEqual(FakeSocket.last.frames("credit").map(({ tokens }) => tokens), [2]);
});

test("a pause that finds everything read is answered with the whole window", async () => {
  const { socket } = await begin({ input: "hi" }, { credit: 8 });
  socket.say({ type: "response.paused", legato: 1, response_id: "resp_1", output_tokens: 8 });
  await settle();
  assert.deepEqual(socket.frames("credit").map(({ tokens }) => tokens), [8]);
});

test("a reconnect brings credit along, in case a grant was lost", async () => {
  const { socket } = await begin({ input: "hi" }, { credit: 8 });
  const next = await reconnect(socket);
  assert.equal(next.frames("resume")[0].credit, 8);
});

test("another client resumes by id and lane", async () => {
  const answer = connect().resume("resp_9", { startingAfter: 4, lane: "old-1" });
  FakeSocket.last.open();
  assert.equal(FakeSocket.last.frames("resume")[0].starting_after, 4);
  const script = new Script("resp_9", "old-1");
  script.number = 5;
  FakeSocket.last.say(script.delta("rest"));
  FakeSocket.last.say(script.end());
  const read = collect(answer);
  await read.finished;
  assert.equal(read.text, "rest");
});

test("without its lane, a resumed response is known by the event it waits for", async () => {
  const answer = connect().resume("resp_9", { startingAfter: 4 });
  const other = client.respond({ input: "hi" });
  FakeSocket.last.open();
  const script = new Script("resp_9", "old-1");
  script.number = 5;
  const mine = new Script("resp_10", other.lane);
  FakeSocket.last.say(mine.created());
  FakeSocket.last.say(script.delta("rest"));
  FakeSocket.last.say(script.end());
  assert.equal((await answer.response()).id, "resp_9");
  assert.equal(answer.lane, "old-1");
  assert.equal(other.ended, false);
});

test("closing ends everything, and nothing is left running", async () => {
  const { socket, read } = await begin();
  client.close();
  await read.finished;
  assert.ok(read.error instanceof ClientClosed);
  assert.equal(socket.closed, 1000);
  assert.equal(client.state, "closed");
  mock.timers.tick(600_000);
  assert.equal(FakeSocket.made.length, 1);
  assert.throws(() => client.respond({ input: "hi" }), ClientClosed);
});

test("what is exported has a type, and every class with a type is exported", () => {
  const types = new globalThis.URL("../../../legato/serve/playground/legato.d.ts", import.meta.url);
  const declared = readFileSync(types, "utf8").matchAll(/^export declare class (\w+)/gm);
  const names = Array.from(declared, ([, name]) => name);
  assert.deepEqual(names.sort(), Object.keys(exported).sort());
});
