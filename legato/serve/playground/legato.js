// Legato's client for browsers, Node >= 22, Deno and Bun: responses over one WebSocket,
// which come back when the connection does. No dependencies; types are in legato.d.ts.
//
//   import { LegatoClient } from "./legato.js";
//   const client = new LegatoClient({ url: "ws://127.0.0.1:8000/v1/responses" });
//   for await (const text of client.respond({ input: "Hi" }).text()) show(text);
//
// An answer is followed by its sequence numbers: after a lost connection the client
// asks for what comes after the last event it saw, so nothing is lost or seen twice.
// Each answer has a lane of its own unless one is named; requests that name the same
// lane run one after another, and wait here for their turn.

const VERSION = 1;
const KEY_PROTOCOL = "openai-insecure-api-key.";
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TERMINAL = new Set(
  ["completed", "incomplete", "failed", "cancelled"].map((end) => `response.${end}`),
);
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 8_000;
const HANDSHAKE_MS = 10_000;
const OPEN = 1;

/** What every error of this client is. */
export class LegatoError extends Error {
  constructor(message, { code = "", status = 0, param = null, cause } = {}) {
    super(message, { cause });
    this.name = new.target.name;
    this.code = code;
    this.status = status;
    this.param = param;
  }
}
/** The server did not begin the response; `param` may name the field at fault. */
export class RequestRefused extends LegatoError {}
/** The server is full, or going: try again, after `retryAfterS` if it said so. */
export class Overloaded extends RequestRefused {
  constructor(message, { retryAfterS = null, ...fields } = {}) {
    super(message, fields);
    this.retryAfterS = retryAfterS;
  }
}
/** The response began, and the server could not end it; `response` is what there is. */
export class ResponseFailed extends LegatoError {
  constructor(message, { response = null, ...fields } = {}) {
    super(message, fields);
    this.response = response;
  }
}
/** The server does not keep the rest of this response any more. */
export class ResponseLost extends LegatoError {}
/** The server could not be reached again within the client's patience. */
export class ConnectionLost extends LegatoError {}
/** The client was closed. */
export class ClientClosed extends LegatoError {}

/** One response: iterate it once, over its events or its text. */
export class Answer {
  /** The response's id, once the server has said it. */
  id = null;
  /** The `sequence_number` of the last event that was received. */
  sequence = -1;
  /** The lane on the wire; keep it with the id to resume in another client. */
  lane;

  #client;
  #events = [];
  #ended = false;
  #error = null;
  #response = null;
  #waiting = []; // told of any news
  #window;
  #read = 0; // deltas read since the last grant; each is a token at least
  #paused = false;

  constructor(client, lane, window) {
    this.#client = client;
    this.#window = window;
    this.lane = lane;
  }

  /** Whether nothing more will come. */
  get ended() {
    return this.#ended;
  }

  /** All events of the response, in order. Leaving the loop early cancels it. */
  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        const events = this.#events;
        this.#events = [];
        for (const event of events) {
          yield event;
          this.#count(event);
        }
        if (this.#events.length) continue;
        if (this.#error) throw this.#error;
        if (this.#ended) return;
        if (this.#paused) this.#grant(this.#window);
        await this.#news();
      }
    } finally {
      this.cancel();
    }
  }

  /** The text as it comes. Leaving the loop early cancels the response. */
  async *text() {
    for await (const event of this) {
      if (event.type === "response.output_text.delta") yield event.delta;
    }
  }

  /**
   * The response object at its end: completed, incomplete or cancelled. It does not
   * read: with `credit`, somebody must.
   */
  async response() {
    while (!this.#ended) await this.#news();
    if (this.#error) throw this.#error;
    return this.#response;
  }

  /** End it now, whether it waits or runs; it then ends as cancelled. Idempotent. */
  cancel() {
    if (!this.#ended) this.#client.control(this, "cancel");
  }

  /** End it now as if its token limit was reached; it can be continued from. */
  stop() {
    if (!this.#ended) this.#client.control(this, "stop");
  }

  /** Change a running response: `max_output_tokens`, `priority`. */
  update(fields) {
    if (!this.#ended) this.#client.control(this, "update", fields);
  }

  /** For the client: an event of this response. False: some before it are missing. */
  take(event) {
    const number = event.sequence_number;
    if (number <= this.sequence || this.#ended) return true;
    if (number !== this.sequence + 1) return false;
    this.sequence = number;
    if (event.type === "response.created") this.id = event.response.id;
    this.#events.push(event);
    if (event.type === "error") this.#client.noteError(this, event);
    if (TERMINAL.has(event.type)) this.#response = event.response;
    this.#tell();
    return true;
  }

  /** For the client: nothing more comes, but what was received may still be read. */
  end(error = null, response = this.#response) {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#response = response;
    this.#tell();
  }

  /** For the client: the server waits for credit. */
  pause() {
    this.#paused = true;
    this.#tell();
  }

  /** For the client: what to grant in a frame that begins or resumes it. */
  openingCredit() {
    this.#read = 0;
    this.#paused = false;
    return this.#window ? { credit: this.#window } : {};
  }

  #count(event) {
    if (!this.#window || !event.type.endsWith(".delta")) return;
    this.#read += 1;
    if (2 * this.#read >= this.#window) this.#grant(this.#read);
  }

  #grant(tokens) {
    this.#read = 0;
    this.#paused = false;
    if (!this.#ended) this.#client.control(this, "credit", { tokens });
  }

  #news() {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #tell() {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/**
 * Responses over one WebSocket. Connects when it has something to say. Fires `state`
 * whenever `state` changes: `idle`, `connecting`, `open`, `waiting` (to connect again)
 * or `closed`.
 */
export class LegatoClient extends EventTarget {
  state = "idle";

  #url;
  #WebSocket;
  #patienceMs;
  #silenceMs;
  #key;
  #socket = null;
  #lanes = new Map(); // lane -> {answer, frame, error, cancelled}: what is under way
  #queues = new Map(); // lane -> what waits for its turn
  #name = randomName();
  #count = 0;
  #attempt = 0;
  #lostAt = null;
  #timers = {};
  #online = () => this.#timers.retry && this.#connect();

  constructor(options = {}) {
    super();
    const { apiKey = "", patienceMs = 60_000, silenceMs = 20_000 } = options;
    this.#url = String(options.url ?? ownUrl());
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.#WebSocket) throw new TypeError("no WebSocket here: give one as an option");
    this.#key = apiKey;
    this.#patienceMs = patienceMs;
    this.#silenceMs = silenceMs;
    globalThis.addEventListener?.("online", this.#online);
  }

  /** Ask for a response: the body of `POST /v1/responses`. */
  respond(request, { lane, signal, credit = 0, resumable = true } = {}) {
    const answer = new Answer(this, lane ?? this.#newLane(), credit);
    const frame = { ...request, type: "response.create", stream_id: answer.lane };
    if (resumable) frame.resumable = true;
    return this.#begin({ answer, frame }, signal);
  }

  /** Follow a resumable response again, from what comes after `startingAfter`. */
  resume(responseId, { startingAfter = -1, lane, signal, credit = 0 } = {}) {
    const answer = new Answer(this, lane, credit);
    answer.id = responseId;
    answer.sequence = startingAfter;
    // Without its lane it is known by its next event.
    const key = lane ?? Symbol(responseId);
    return this.#begin({ answer, frame: null, key }, signal);
  }

  /** Leave. Answers under way end with ClientClosed; the server cancels them in time. */
  close() {
    if (this.state === "closed") return;
    globalThis.removeEventListener?.("online", this.#online);
    this.#failAll(() => new ClientClosed("the client was closed"));
    this.#drop(1000);
    this.#clear();
    this.#become("closed");
  }

  /** For answers: a frame about one of them. */
  control(answer, verb, fields = {}) {
    const job = this.#jobOf(answer);
    if (!job) return;
    const begun = answer.id !== null;
    const ends = verb === "cancel" || (verb === "stop" && !begun);
    if (ends) {
      job.cancelled = true;
      if (!begun && !(job.sent && this.#isOpen())) {
        this.#finish(job, null, { id: null, status: "cancelled", output: [] });
        return;
      }
    } else if (!begun) {
      return;
    }
    if (verb === "stop" && begun) job.stopped = true;
    const whom = begun ? { response_id: answer.id } : { stream_id: answer.lane };
    this.#send({ type: `response.${ends ? "cancel" : verb}`, ...whom, ...fields });
  }

  /** For answers: the reason that precedes a failure. */
  noteError(answer, event) {
    const job = this.#jobOf(answer);
    if (job) job.error = event;
  }

  #newLane() {
    this.#count += 1;
    return `${this.#name}-${this.#count}`;
  }

  #begin(job, signal) {
    const { answer } = job;
    if (this.state === "closed") throw new ClientClosed("the client was closed");
    if (signal?.aborted) {
      answer.end(signal.reason);
      return answer;
    }
    job.key ??= answer.lane;
    if (signal) {
      const abort = () => {
        answer.cancel();
        this.#finish(job, signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
      job.release = () => signal.removeEventListener("abort", abort);
    }
    if (this.#lanes.has(job.key)) {
      if (!this.#queues.has(job.key)) this.#queues.set(job.key, []);
      this.#queues.get(job.key).push(job);
    } else {
      this.#start(job);
    }
    return answer;
  }

  #start(job) {
    this.#lanes.set(job.key, job);
    if (this.#isOpen()) this.#join(job);
    else if (!this.#socket && !this.#timers.retry) this.#connect();
    this.#listen();
  }

  // Begin a response, or follow it again, on the socket there is now.
  #join(job) {
    const { answer, frame } = job;
    job.sent = true;
    const credit = answer.openingCredit();
    if (answer.id === null) {
      this.#send({ ...frame, ...credit });
      return;
    }
    const after = answer.sequence < 0 ? {} : { starting_after: answer.sequence };
    this.#send({ type: "response.resume", response_id: answer.id, ...after, ...credit });
    const verb = job.cancelled ? "cancel" : job.stopped ? "stop" : null;
    if (verb) this.#send({ type: `response.${verb}`, response_id: answer.id });
  }

  #jobOf(answer) {
    for (const job of this.#lanes.values()) if (job.answer === answer) return job;
    for (const queue of this.#queues.values()) {
      for (const job of queue) if (job.answer === answer) return job;
    }
    return null;
  }

  #finish(job, error, response) {
    job.release?.();
    job.answer.end(error, response);
    const queue = this.#queues.get(job.key) ?? [];
    if (this.#lanes.get(job.key) !== job) {
      const place = queue.indexOf(job);
      if (place >= 0) queue.splice(place, 1);
    } else {
      this.#lanes.delete(job.key);
      const next = queue.shift();
      if (next) this.#start(next);
    }
    if (!queue.length) this.#queues.delete(job.key);
    if (this.#lanes.size) return;
    this.#clear();
    if (!this.#socket) this.#become("idle");
  }

  #failAll(makeError) {
    for (const queue of this.#queues.values()) {
      for (const job of queue.splice(0)) this.#finish(job, makeError());
    }
    for (const job of [...this.#lanes.values()]) this.#finish(job, makeError());
  }

  // -- The connection ---------------------------------------------------------------

  #isOpen() {
    return this.#socket?.readyState === OPEN;
  }

  #connect() {
    clearTimeout(this.#timers.retry);
    this.#timers.retry = null;
    const byProtocol = this.#key && TOKEN.test(this.#key);
    // A browser wants one of its offers chosen, and the key never is.
    const offers = byProtocol ? ["legato.json", KEY_PROTOCOL + this.#key] : [];
    const socket = new this.#WebSocket(this.#url, offers);
    this.#socket = socket;
    this.#become("connecting");
    this.#timers.handshake = setTimeout(() => this.#lose(socket), HANDSHAKE_MS);
    socket.onopen = () => {
      if (socket !== this.#socket) return;
      clearTimeout(this.#timers.handshake);
      this.#become("open");
      if (this.#key && !byProtocol) this.#authenticate();
      for (const job of [...this.#lanes.values()]) this.#rejoin(job);
      this.#listen();
    };
    socket.onmessage = ({ data }) => socket === this.#socket && this.#hear(data);
    socket.onclose = ({ code }) => this.#lose(socket, code);
    socket.onerror = () => {}; // a close follows, and says as much
  }

  #rejoin(job) {
    if (job.cancelled && job.answer.id === null) {
      this.#finish(job, null, { id: null, status: "cancelled", output: [] });
    } else {
      this.#join(job);
    }
  }

  #authenticate() {
    this.#send({ type: "session.authenticate", api_key: this.#key });
  }

  #send(frame) {
    if (this.#isOpen()) this.#socket.send(JSON.stringify({ legato: VERSION, ...frame }));
  }

  #drop(code) {
    const socket = this.#socket;
    this.#socket = null;
    clearTimeout(this.#timers.handshake);
    if (socket) socket.onopen = socket.onmessage = socket.onclose = null;
    socket?.close(code);
  }

  #lose(socket, code) {
    if (socket !== this.#socket) return;
    this.#drop();
    if (code === 1009) this.#refuseUnbegun();
    if (!this.#lanes.size) {
      this.#become("idle");
      return;
    }
    this.#lostAt ??= Date.now();
    if (Date.now() - this.#lostAt >= this.#patienceMs) {
      this.#giveUp();
      return;
    }
    const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#attempt);
    this.#attempt += 1;
    this.#clear();
    this.#timers.retry = setTimeout(() => this.#connect(), most * (0.5 + Math.random() / 2));
    this.#become("waiting");
  }

  #giveUp() {
    const waited = Math.round((Date.now() - this.#lostAt) / 1000);
    this.#lostAt = null;
    this.#attempt = 0;
    this.#failAll(() => new ConnectionLost(`no connection to ${this.#url} for ${waited} s`));
    this.#become("idle");
  }

  #refuseUnbegun() {
    const fields = { code: "message_too_large", status: 413 };
    for (const job of [...this.#lanes.values()]) {
      if (job.answer.id !== null || !job.sent) continue;
      this.#finish(job, new RequestRefused("the request is too large", fields));
    }
  }

  // A dead connection may look like a quiet one: after a silence, ask.
  #listen() {
    clearTimeout(this.#timers.silence);
    if (!this.#isOpen() || !this.#lanes.size) return;
    this.#timers.silence = setTimeout(() => {
      const socket = this.#socket;
      this.#authenticate();
      this.#timers.silence = setTimeout(() => this.#lose(socket), this.#silenceMs);
    }, this.#silenceMs);
  }

  #clear() {
    for (const timer of ["retry", "silence", "handshake"]) clearTimeout(this.#timers[timer]);
    this.#timers = {};
  }

  #become(state) {
    if (this.state === state || this.state === "closed") return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  // -- What the server says -----------------------------------------------------------

  #hear(data) {
    const event = JSON.parse(data);
    this.#lostAt = null;
    this.#attempt = 0;
    if (event.sequence_number === undefined) {
      this.#hearOurs(event);
    } else {
      const job = this.#lanes.get(event.stream_id) ?? this.#claim(event);
      if (job && !job.answer.take(event)) this.#lose(this.#socket);
      else if (job && TERMINAL.has(event.type)) this.#finish(job, failureOf(event, job.error));
    }
    this.#listen();
  }

  // An answer that is resumed without its lane is known by the event it waits for.
  #claim(event) {
    for (const [key, job] of this.#lanes) {
      if (typeof key !== "symbol" || job.answer.sequence + 1 !== event.sequence_number) continue;
      this.#lanes.delete(key);
      job.key = job.answer.lane = event.stream_id;
      this.#lanes.set(job.key, job);
      return job;
    }
    return null;
  }

  #hearOurs(event) {
    const job = this.#addressee(event);
    if (event.type === "response.paused") job?.answer.pause();
    if (event.type !== "error") return;
    if (event.status === 401) this.#failAll(() => refusalOf(event));
    else if (!job) return;
    else if (job.answer.id === null) this.#finish(job, refusalOf(event));
    else if (event.status === 404 || event.status === 410) this.#finish(job, lossOf(event));
  }

  #addressee({ response_id, stream_id }) {
    if (response_id === undefined) return this.#lanes.get(stream_id);
    return [...this.#lanes.values()].find(({ answer }) => answer.id === response_id);
  }
}

function ownUrl() {
  const url = new URL("v1/responses", import.meta.url);
  if (!url.protocol.startsWith("http")) throw new TypeError("give the server's url");
  url.protocol = url.protocol.replace("http", "ws");
  return url;
}

function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function detailsOf({ status = 0, error }) {
  const { code = "", param = null, message = "the server gave no reason" } = error ?? {};
  return { message, fields: { code: code ?? "", param, status } };
}

function refusalOf(event) {
  const { message, fields } = detailsOf(event);
  if (fields.status !== 429 && fields.status !== 503) return new RequestRefused(message, fields);
  const headers = event.headers ?? event.error.headers ?? {};
  const after = Number(headers["retry-after"]);
  return new Overloaded(message, { ...fields, retryAfterS: after >= 0 ? after : null });
}

function lossOf(event) {
  const { message, fields } = detailsOf(event);
  return new ResponseLost(message, fields);
}

function failureOf({ type, response }, noted) {
  if (type !== "response.failed") return null;
  const { message, fields } = detailsOf(noted ?? { error: response.error });
  return new ResponseFailed(message, { ...fields, response });
}
