// Losing the server and finding it again: reloads, cuts, delays, keys.

import assert from "node:assert/strict";
import { test } from "node:test";

import { answer, ask, begun, ended, entered, KEY, LONG_ANSWER, LONG_QUESTION, openPage, Proxy, stage } from "./stage.mjs";


async function leave(page, proxy) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
  await proxy?.stop();
}

export function connection() {
  test("a reload in mid-answer goes on where it was, and nothing is asked twice", async () => {
    const page = await openPage(stage.server.url);
    await entered(page);
    await ask(page, LONG_QUESTION);
    await begun(page);
    await page.reload();
    assert.equal(await ended(page), LONG_ANSWER);
    const kinds = page.sent.map(({ type }) => type);
    assert.equal(kinds.filter((kind) => kind === "response.create").length, 1);
    assert.equal(kinds.filter((kind) => kind === "response.resume").length, 1);
    assert.match(await answer(page).locator(".figures").innerText(), /tokens\/s/);
    await leave(page);
  });

  test("a reload before the first token asks again", async () => {
    const proxy = await Proxy.before(stage.server.url);
    const page = await openPage(proxy.url);
    await entered(page);
    proxy.delayMs = 60_000;
    await ask(page, "Hi");
    await page.waitForFunction(() => document.querySelector(".assistant"));
    proxy.delayMs = 0;
    await page.reload();
    assert.match(await ended(page), /no more/);
    await leave(page, proxy);
  });

  test("a cut connection costs a pause and no word", async () => {
    const proxy = await Proxy.before(stage.server.url);
    const page = await openPage(proxy.url);
    await entered(page);
    await ask(page, LONG_QUESTION);
    await begun(page);
    proxy.refusing = true;
    proxy.cut();
    await page.getByText("Connection lost. Connecting again…").waitFor();
    proxy.refusing = false;
    await page.waitForFunction(() => document.getElementById("notice").hidden);
    proxy.cut();
    assert.equal(await ended(page), LONG_ANSWER);
    // The second cut may come when everything is there.
    assert.ok(page.sent.some(({ type }) => type === "response.resume"));
    await leave(page, proxy);
  });

  test("frames that come late, and all at once, are shown as if on time", async () => {
    const proxy = await Proxy.before(stage.server.url);
    const page = await openPage(proxy.url);
    await entered(page);
    proxy.delayMs = 700;
    await ask(page, LONG_QUESTION);
    await begun(page);
    proxy.cut();
    proxy.delayMs = 100;
    assert.equal(await ended(page), LONG_ANSWER);
    await leave(page, proxy);
  });

  test("stop works after a reconnect", async () => {
    const proxy = await Proxy.before(stage.server.url);
    const page = await openPage(proxy.url);
    await entered(page);
    await ask(page, LONG_QUESTION);
    await begun(page);
    proxy.cut();
    await page.click("#stop");
    const text = await ended(page);
    assert.match(text, /^w0 w1 /);
    assert.doesNotMatch(text, /w249/);
    await leave(page, proxy);
  });

  test("another tab waits for its turn, and then has the whole answer", async () => {
    const page = await openPage(stage.server.url);
    await entered(page);
    await ask(page, LONG_QUESTION);
    await begun(page);
    const other = await page.context().newPage();
    await other.goto(stage.server.url);
    await entered(other);
    await other.locator("#conversations .open").click();
    assert.match(await answer(other).locator(".body").innerText(), /^w0 w1 /);
    assert.equal(await ended(page), LONG_ANSWER);
    assert.equal(await ended(other), LONG_ANSWER);
    await leave(page);
  });

  test("a server that asks for a key gets it, and nobody else", async () => {
    const page = await openPage(stage.locked.url);
    await page.getByLabel("This server asks for an API key").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), "key");
    await page.keyboard.type("sk-wrong");
    await page.keyboard.press("Enter");
    await page.getByText("This key is not known here.").waitFor();
    await page.fill("#key", KEY);
    await page.press("#key", "Enter");
    await entered(page);
    await ask(page, "Hi");
    assert.match(await ended(page), /no more/);
    const kept = await page.evaluate(() => JSON.stringify(localStorage) + location.href + document.cookie);
    assert.ok(!kept.includes(KEY));
    await page.reload();
    await entered(page);
    assert.ok(await page.isHidden("#key-form"));
    await leave(page);
  });
}
