// What was said: messages in order, and what is asked next. Plain data, as it is kept.
//
// An answer's `state` is `asked`, `streaming`, or how it ended: `completed`, `cut`,
// `stopped`, `failed`. With `responseId`, `lane` and `sequence` it can be followed
// again, by this page or by the next one.

const TITLE_CHARACTERS = 60;

/** A conversation that is empty. */
export function newConversation() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const id = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, title: "", updated: Date.now(), messages: [] };
}

/** Add a question, and the answer that is to come; returns the answer. */
export function ask(conversation, text) {
  const title = text.trim().replace(/\s+/g, " ").slice(0, TITLE_CHARACTERS);
  conversation.title ||= title;
  conversation.messages.push({ role: "user", text });
  return answerAgain(conversation, conversation.messages.length);
}

/** Drop everything from a place on, and put a new answer there; returns it. */
export function answerAgain(conversation, place) {
  conversation.messages.length = place;
  const answer = { role: "assistant", text: "", state: "asked", sequence: -1 };
  conversation.messages.push(answer);
  conversation.updated = Date.now();
  return answer;
}

/** Whether an answer is not over. */
export function isOpen(message) {
  return message.state === "asked" || message.state === "streaming";
}

/** The request for the last answer: everything before it. */
export function wholeRequest({ messages }) {
  const said = messages.slice(0, -1).filter(({ text }) => text);
  return { input: said.map(({ role, text }) => ({ role, content: text })) };
}

/**
 * The request for the last answer that sends only what is new, where the server may
 * still hold what came before; else null.
 */
export function shortRequest({ messages }) {
  const [before, question] = messages.slice(-3, -1);
  const held = before?.role === "assistant" && before.responseId && before.state !== "failed";
  if (!held) return null;
  return {
    previous_response_id: before.responseId,
    input: [{ role: "user", content: question.text }],
  };
}

/** Take an event of the response into the message. */
export function take(message, event, now = Date.now()) {
  message.sequence = event.sequence_number;
  if (event.type === "response.created") {
    message.responseId = event.response.id;
    message.state = "streaming";
  } else if (event.type === "response.output_text.delta") {
    message.firstAt ??= now;
    message.text += event.delta;
    message.pieces = (message.pieces ?? 0) + 1;
  } else if (event.response && event.type !== "response.in_progress") {
    finish(message, event.response, now);
  }
}

function finish(message, { status, usage, incomplete_details: why }, now) {
  message.endedAt = now;
  message.tokens = usage?.output_tokens;
  if (status === "completed" || status === "failed") message.state = status;
  else message.state = status === "incomplete" && !message.stopping && why ? "cut" : "stopped";
  delete message.stopping;
}

/** What is told below an answer: a short line, or "". */
export function figures(message, now = Date.now()) {
  const parts = [];
  if (message.firstAt && message.askedAt) {
    parts.push(`first token after ${seconds(message.firstAt - message.askedAt)}`);
  }
  const tokens = message.tokens ?? message.pieces ?? 0;
  const spanMs = (message.endedAt ?? now) - message.firstAt;
  if (tokens > 1 && spanMs > 0) {
    const rate = ((tokens - 1) / spanMs) * 1000;
    parts.push(`${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tokens/s`);
  }
  if (message.tokens) parts.push(message.tokens === 1 ? "1 token" : `${message.tokens} tokens`);
  if (message.state === "stopped") parts.push("stopped");
  if (message.state === "cut") parts.push("cut at the token limit");
  return parts.join(" · ");
}

function seconds(ms) {
  return ms < 1000 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`;
}
