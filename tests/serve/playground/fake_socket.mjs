// A WebSocket whose other side is the test, and a server's side of one response.

export class FakeSocket {
  static made = [];
  static get last() {
    return FakeSocket.made.at(-1);
  }

  readyState = 0;
  sent = [];
  closed = null;

  constructor(url, protocols) {
    this.url = url;
    this.protocols = protocols;
    FakeSocket.made.push(this);
  }

  send(text) {
    if (this.readyState !== 1) throw new Error("the socket is not open");
    this.sent.push(JSON.parse(text));
  }

  close(code) {
    this.readyState = 3;
    this.closed = code ?? 1005;
  }

  open() {
    this.readyState = 1;
    this.onopen?.({});
  }

  drop(code = 1006) {
    this.readyState = 3;
    this.onclose?.({ code });
  }

  say(event) {
    this.onmessage?.({ data: JSON.stringify(event) });
  }

  /** The frames of a type that were sent. */
  frames(type) {
    return this.sent.filter((frame) => frame.type === `response.${type}`);
  }
}

/** The events of one response, numbered. */
export class Script {
  number = 0;

  constructor(id, lane) {
    this.id = id;
    this.lane = lane;
  }

  event(type, fields = {}) {
    const lane = this.lane === undefined ? {} : { stream_id: this.lane };
    return { type: `response.${type}`, ...fields, ...lane, sequence_number: this.number++ };
  }

  created() {
    return this.event("created", { response: { id: this.id, status: "in_progress" } });
  }

  delta(text) {
    return this.event("output_text.delta", { delta: text });
  }

  end(status = "completed", fields = {}) {
    return this.event(status, { response: { id: this.id, status, output: [], ...fields } });
  }
}

/** Let everything that is ready run. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));
