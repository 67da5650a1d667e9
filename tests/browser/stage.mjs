// What the tests play on: a server, a proxy that cuts and delays, and a browser whose
// pages report every violation of their policy.

import { spawn } from "node:child_process";
import net from "node:net";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const FLAGS =
  "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking " +
  "--disable-component-update --disable-sync";

/** Made once for all tests: `server`, `locked` (with a key), `browser`. */
export const stage = {};
export const KEY = "sk-right";

export async function raise() {
  const made = [startServer(), startServer(KEY), startBrowser()];
  [stage.server, stage.locked, stage.browser] = await Promise.all(made);
}

export async function strike() {
  await stage.browser?.close();
  await Promise.all(Array.from(Proxy.standing, (proxy) => proxy.stop()));
  await Promise.all([stage.server?.stop(), stage.locked?.stop()]);
}

/** Start the server; `stop` waits until it has gone. */
async function startServer(...keys) {
  const script = new URL("server.py", import.meta.url).pathname;
  const child = spawn(process.env.LEGATO_PYTHON, [script, ...keys], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const gone = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    createInterface(child.stdout).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return {
    url,
    stop: () => {
      child.stdin.end();
      return gone;
    },
  };
}

/** A TCP proxy before a server: `cut()`, `refusing`, `delayMs`. */
export class Proxy {
  static standing = new Set();
  delayMs = 0;
  refusing = false;
  #pairs = new Set();
  #server;

  static async before(url) {
    const proxy = new Proxy();
    Proxy.standing.add(proxy);
    const { port } = new URL(url);
    proxy.#server = net.createServer((client) => proxy.#join(client, Number(port)));
    await new Promise((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  /** Cut every connection there is, as a network does: without a word. */
  cut() {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  stop() {
    Proxy.standing.delete(this);
    this.cut();
    return new Promise((resolve) => this.#server.close(resolve));
  }

  #join(client, port) {
    if (this.refusing) {
      client.destroy();
      return;
    }
    const server = net.connect(port, "127.0.0.1");
    const pair = [client, server];
    this.#pairs.add(pair);
    client.on("data", (bytes) => server.write(bytes));
    server.on("data", (bytes) => {
      if (!this.delayMs) client.write(bytes);
      else setTimeout(() => client.destroyed || client.write(bytes), this.delayMs);
    });
    const end = () => {
      this.#pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) socket.on("close", end).on("error", end);
  }
}

/** Start the browser. */
function startBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS.split(" ") });
}

/** A page of its own, as a stranger has it; `page.faults` collects what must not be. */
export async function openPage(url, options = {}) {
  const context = await stage.browser.newContext({ viewport: { width: 1100, height: 700 }, ...options });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  page.faults = [];
  page.sent = [];
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("dialog", (dialog) => {
    if (dialog.type() === "alert") page.faults.push("an alert");
    dialog.accept();
  });
  page.on("console", (message) => {
    if (message.type() !== "error") return;
    // Lost connections are part of the play.
    if (!/WebSocket|Failed to load resource|ERR_/.test(message.text())) page.faults.push(message.text());
  });
  page.on("websocket", (socket) => {
    socket.on("framesent", ({ payload }) => page.sent.push(JSON.parse(payload)));
  });
  await context.exposeFunction("reportFault", (fault) => page.faults.push(fault));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      window.reportFault(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  await page.goto(url);
  return page;
}

/** Wait until the page may be used. */
export const entered = (page) => page.waitForSelector("#model:not(:empty)");

export const LONG_QUESTION = `Count, please. ${"And go on. ".repeat(45)}`;
export const LONG_ANSWER = Array.from({ length: 250 }, (_, number) => `w${number}`).join(" ");

/** The last answer. */
export const answer = (page) => page.locator(".assistant").last();

/** Ask something. */
export async function ask(page, text) {
  await page.fill("#question", text);
  await page.press("#question", "Enter");
}

/** Wait for the end of the last answer; returns its text. */
export async function ended(page) {
  await page.waitForFunction(() => {
    const last = [...document.querySelectorAll(".assistant")].at(-1);
    return last?.ariaBusy === "false" && document.getElementById("stop").hidden;
  });
  return answer(page).locator(".body").innerText();
}

/** Wait until the last answer shows some text of its own. */
export const begun = (page) =>
  page.waitForFunction(() => /w9\b/.test([...document.querySelectorAll(".assistant .body")].at(-1)?.textContent));
