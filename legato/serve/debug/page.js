"use strict";
// Asks for the figures once a second and draws them; keeps nothing but two minutes.

const PERIOD_MS = 1000;
const HISTORY = 120;
const STAGES = {
  request_tokenize_queue_time: "waiting for the tokenizer",
  request_tokenize_time: "tokenizing",
  request_admit_time: "waiting for the scheduler",
  request_queue_time: "waiting for a slot",
  request_prefill_time: "prefill, to the first token",
  request_decode_time: "decode, to the end",
  request_inference_time: "prefill and decode",
  e2e_request_latency: "the whole request",
};
const $ = (id) => document.getElementById(id);

let key = "";
let paused = false;
let last = null;
const slots = new Map();
const history = { tokens: [], bubbles: [] };

const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const ms = (value) => (value ? `${number(value, value < 10 ? 2 : 0)}\u00a0ms` : "–");
const percent = (share) => `${number(100 * share, 1)}\u00a0%`;

function make(tag, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

// Elements are made once and then only their text changes, so that a screen reader or a
// selection in the page is not thrown out every second.
function slot(parent, name, build) {
  const path = `${parent.id}/${name}`;
  if (!slots.has(path)) slots.set(path, parent.appendChild(build()));
  return slots.get(path);
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function actor(name, note) {
  const item = slot($("pipeline"), `actor ${name}`, () => {
    const made = make("li", "", "actor");
    made.append(make("strong", name), make("span", "", "note"));
    return made;
  });
  setText(item.lastElementChild, note);
}

function mailbox(name, box) {
  const item = slot($("pipeline"), `mailbox ${name}`, () => {
    const made = make("li", "", "mailbox");
    const meter = document.createElement("meter");
    meter.setAttribute("aria-label", `waiting in ${name}`);
    made.append(make("strong", name), meter, make("span"), make("span", "", "note"));
    return made;
  });
  const [, meter, depth, wait] = item.children;
  if (!box) return setText(depth, "–");
  const before = last && last.boxes.get(box.name);
  const taken = before ? box.got - before.got : 0;
  Object.assign(meter, { min: 0, max: box.capacity, high: box.capacity * 0.8, optimum: 0 });
  meter.value = box.depth;
  setText(depth, `${number(box.depth)} of ${number(box.capacity)}`);
  const mean = taken > 0 ? (1000 * (box.waited_s - before.waited_s)) / taken : 0;
  setText(wait, taken > 0 ? `waits ${ms(mean)}` : "");
}

function figure(name, text) {
  const item = slot($("figures"), name, () => {
    const made = make("div");
    made.append(make("dt", name), make("dd"));
    return made;
  });
  setText(item.lastElementChild, text);
}

function chart(name, values, show) {
  const item = slot($("charts"), name, () => {
    const made = make("figure");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${HISTORY - 1} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.append(document.createElementNS(svg.namespaceURI, "polyline"));
    made.append(svg, make("figcaption"));
    return made;
  });
  const top = Math.max(...values, Number.EPSILON);
  const points = values.map((v, i) => `${HISTORY - values.length + i},${96 - (92 * v) / top}`);
  item.firstChild.firstChild.setAttribute("points", points.join(" "));
  const text = `${name}: now ${show(values.at(-1) ?? 0)}, at most ${show(Math.max(0, ...values))}`;
  item.firstChild.setAttribute("aria-label", text);
  setText(item.lastChild, text);
}

function remember(values, value) {
  values.push(value);
  if (values.length > HISTORY) values.shift();
}

function rates(core, at) {
  if (!last || core.steps < last.core.steps) return { bubbles: 0, busy: 0, steps: 0, step_ms: 0 };
  const idle = core.idle_s - last.core.idle_s;
  const busy = core.busy_s - last.core.busy_s;
  const steps = core.steps - last.core.steps;
  const span = (at - last.at) / 1000;
  return {
    bubbles: idle + busy > 0 ? idle / (idle + busy) : 0,
    busy: Math.min(1, busy / span),
    steps: steps / span,
    step_ms: steps ? (1000 * busy) / steps : 0,
  };
}

function drawPipeline(engine, boxes, rate) {
  actor("Clients", `${number(engine.open_streams)} streams`);
  mailbox("prompts", boxes.get("tokenizer"));
  actor("Tokenizer", `median ${ms(stage(engine, "request_tokenize_time").p50_ms)}`);
  mailbox("orders", boxes.get("scheduler") || boxes.get("orders"));
  actor("Scheduler", `plans in ${ms(engine.plan_ms_p50)}`);
  mailbox("plans", { ...plans(engine.core), name: "" });
  actor("Device", `step ${ms(rate.step_ms)}, busy ${percent(rate.busy)}`);
  mailbox("reports", boxes.get("detokenizer"));
  actor("Detokenizer", `delivers in ${ms(engine.delivery_ms_p50)}`);
}

// The executor's mailbox: of the steps under way one runs, the others wait.
function plans(core) {
  const depth = Math.max(0, core.in_flight - 1);
  return { depth, capacity: Math.max(1, depth), got: 0, waited_s: 0 };
}

function stage(engine, name) {
  return (engine.stages || []).find((one) => one.name === name) || { p50_ms: 0 };
}

function drawFigures(engine, rate) {
  const core = engine.core;
  figure("Tokens a second", number(engine.output_tokens_per_s));
  figure("Bubbles of device time", percent(rate.bubbles));
  figure("Device busy", percent(rate.busy));
  figure("Steps a second", number(rate.steps));
  figure("Running", number(core.running));
  figure("Waiting", number(core.waiting));
  figure("Paused readers", number(core.paused));
  figure("Pages in use", percent(core.pages_total ? core.pages_used / core.pages_total : 0));
  figure("First token, median", ms(engine.ttft_ms_p50));
  figure("Between tokens, median", ms(engine.itl_ms_p50));
  figure("Between tokens, 99\u00a0%", ms(engine.itl_ms_p99));
  figure("Step end to stream, 99\u00a0%", ms(engine.delivery_ms_p99));
  figure("Loop lag, front end, 99\u00a0%", ms(engine.loop_lag_ms_p99));
  figure("Loop lag, core, 99\u00a0%", ms(engine.core_lag_ms_p99));
  figure("Restarts", number(core.restarts + (engine.core_restarts || 0)));
}

function drawStages(stages) {
  for (const one of stages) {
    const row = slot($("stages"), one.name, () => {
      const made = make("tr");
      const title = make("th", STAGES[one.name] || one.name);
      title.scope = "row";
      made.append(title, make("td"), make("td"), make("td"));
      return made;
    });
    [number(one.count), ms(one.p50_ms), ms(one.p99_ms)].forEach((text, index) => {
      setText(row.children[index + 1], text);
    });
  }
}

function draw(stats) {
  const engine = stats.engine;
  const at = performance.now();
  const boxes = new Map(engine.mailboxes.map((box) => [box.name, box]));
  const rate = rates(engine.core, at);
  setText($("model"), engine.model);
  say(engine.state, engine.state !== "ready");
  drawPipeline(engine, boxes, rate);
  drawFigures(engine, rate);
  remember(history.tokens, engine.output_tokens_per_s);
  remember(history.bubbles, rate.bubbles);
  chart("Tokens a second", history.tokens, (v) => number(v));
  chart("Bubbles of device time", history.bubbles, percent);
  drawStages(engine.stages || []);
  last = { at, boxes, core: engine.core };
}

function say(text, bad) {
  setText($("state"), text);
  $("state").classList.toggle("bad", bad);
}

function ask(path, options = {}) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  return fetch(path, { ...options, headers, cache: "no-store" });
}

async function explain(response) {
  if (response.status === 401) $("key-form").hidden = false;
  const body = await response.json().catch(() => ({}));
  return (body.error && body.error.message) || `the server answered ${response.status}`;
}

async function tick() {
  if (!paused && !document.hidden) {
    try {
      const response = await ask("debug/stats");
      if (response.ok) draw(await response.json());
      else say(await explain(response), true);
    } catch {
      say("the server does not answer", true);
    }
  }
  setTimeout(tick, PERIOD_MS);
}

async function record() {
  const button = $("trace");
  button.disabled = true;
  setText(button, "Recording…");
  try {
    const seconds = encodeURIComponent($("trace-seconds").value);
    const response = await ask(`debug/trace?seconds=${seconds}`, { method: "POST" });
    if (!response.ok) return say(await explain(response), true);
    const link = make("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = "legato-trace.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  } catch {
    say("the trace was cut off", true);
  } finally {
    button.disabled = false;
    setText(button, "Record a trace");
  }
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  if (paused) say("paused", false);
});
$("trace").addEventListener("click", record);
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key").value;
  $("key-form").hidden = true;
});
tick();
