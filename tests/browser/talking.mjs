// Talking: send, stream, stop, regenerate, edit, history, settings; nothing that a model
// writes does anything.

import assert from "node:assert/strict";
import { test } from "node:test";

import { answer, ask, begun, ended, entered, LONG_QUESTION, openPage, stage } from "./stage.mjs";

async function open(options) {
  const page = await openPage(stage.server.url, options);
  await entered(page);
  return page;
}

async function leave(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

export function talking() {
  test("an answer streams in as Markdown, with its figures", async () => {
    const page = await open();
    await ask(page, "Name three rivers.");
    await ended(page);
    const body = answer(page).locator(".body");
    assert.equal(await body.locator("h3 em").innerText(), "rivers");
    assert.equal(await body.locator("td.right").innerText(), "2,850 km");
    assert.equal(await body.locator("strong").innerText(), "bold");
    assert.match(await body.locator("pre").innerText(), /^<b onclick=/);
    assert.match(await answer(page).locator(".figures").innerText(), /first token after .* tokens\/s · \d+ tokens/);
    assert.equal(await page.locator(".user .body").innerText(), "Name three rivers.");
    await leave(page);
  });

  test("what looks like a page in an answer stays text", async () => {
    const page = await open();
    await ask(page, "Try to harm me.");
    await ended(page);
    const body = answer(page).locator(".body");
    assert.equal(await body.locator("img, script, iframe, [onclick], [onerror], [style]").count(), 0);
    const links = await body.locator("a").evaluateAll((all) => all.map(({ href, rel }) => [href, rel]));
    assert.deepEqual(links, [["https://example.org/", "noopener noreferrer nofollow"]]);
    assert.match(await body.innerText(), /<script>window\.harmed=3<\/script>/);
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    await leave(page);
  });

  test("a page cannot be made from text, even by mistake", async () => {
    const page = await open();
    const thrown = await page.evaluate(() => {
      try {
        document.createElement("p").innerHTML = "<b>x</b>";
        return "";
      } catch (error) {
        return error.name;
      }
    });
    assert.equal(thrown, "TypeError");
    // That one was on purpose.
    await page.waitForFunction(() => true);
    page.faults = page.faults.filter((fault) => !/require-trusted-types|TrustedHTML/.test(fault));
    await leave(page);
  });

  test("stop ends the answer and keeps its text; regenerate asks again", async () => {
    const page = await open();
    await ask(page, LONG_QUESTION);
    await begun(page);
    await page.click("#stop");
    const text = await ended(page);
    assert.match(text, /^w0 w1 /);
    assert.doesNotMatch(text, /w249/);
    assert.match(await answer(page).locator(".figures").innerText(), /stopped/);
    await answer(page).getByRole("button", { name: "Regenerate" }).click();
    await begun(page);
    assert.equal(await page.locator(".assistant").count(), 1);
    await page.keyboard.press("Escape");
    assert.doesNotMatch(await ended(page), /w249/);
    await leave(page);
  });

  test("an edited question is asked in place of the old one", async () => {
    const page = await open();
    await ask(page, "First");
    await ended(page);
    await page.locator(".user").hover();
    await page.locator(".user").getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Your message").fill("Second");
    await page.locator(".edit").getByRole("button", { name: "Send" }).click();
    await ended(page);
    assert.deepEqual(await page.locator(".user .body").allInnerTexts(), ["Second"]);
    const last = page.sent.filter(({ type }) => type === "response.create").at(-1);
    assert.deepEqual(last.input, [{ role: "user", content: "Second" }]);
    await leave(page);
  });

  test("the next turn sends only what is new", async () => {
    const page = await open();
    await ask(page, "First");
    await ended(page);
    await ask(page, "Second");
    await ended(page);
    const [first, second] = page.sent.filter(({ type }) => type === "response.create");
    assert.equal(first.previous_response_id, undefined);
    assert.match(second.previous_response_id, /^resp_/);
    assert.deepEqual(second.input, [{ role: "user", content: "Second" }]);
    await leave(page);
  });

  test("settings travel with the request, and stay", async () => {
    const page = await open();
    await page.click("#settings-open");
    await page.fill("#instructions", "Be brief.");
    await page.fill("#temperature", "0.5");
    await page.fill("#max_output_tokens", "7");
    await page.fill("#stop-strings", "END\nSTOP");
    await ask(page, "Hi");
    await ended(page);
    const { instructions, temperature, max_output_tokens, stop, top_p } = page.sent[0];
    assert.deepEqual([instructions, temperature, max_output_tokens, top_p], ["Be brief.", 0.5, 7, undefined]);
    assert.deepEqual(stop, ["END", "STOP"]);
    assert.match(await answer(page).locator(".figures").innerText(), /7 tokens · cut at the token limit/);
    await page.reload();
    assert.equal(await page.inputValue("#temperature"), "0.5");
    await leave(page);
  });

  test("a value out of range is shown, not sent", async () => {
    const page = await open();
    await page.click("#settings-open");
    await page.fill("#top_p", "3");
    await ask(page, "Hi");
    assert.equal(await page.evaluate(() => document.activeElement.id), "top_p");
    assert.deepEqual(page.sent, []);
    await leave(page);
  });

  test("conversations are kept, opened, deleted", async () => {
    const page = await open();
    await ask(page, "About rivers");
    await ended(page);
    await page.click("#new-chat");
    assert.ok(await page.isVisible("#welcome"));
    await ask(page, "About seas");
    await ended(page);
    await page.reload();
    assert.equal(await page.locator(".user .body").innerText(), "About seas");
    const open_ = page.locator("#conversations .open");
    assert.deepEqual(await open_.allInnerTexts(), ["About seas", "About rivers"]);
    await open_.nth(1).click();
    assert.equal(await page.locator(".user .body").innerText(), "About rivers");
    await page.getByRole("button", { name: "Delete About seas" }).click();
    assert.deepEqual(await open_.allInnerTexts(), ["About rivers"]);
    await page.click("#clear");
    await page.waitForSelector("#welcome:visible");
    const left = await page.evaluate(() => Object.keys(localStorage).filter((key) => key.includes("conversation")));
    assert.deepEqual(left, []);
    await leave(page);
  });

  test("an answer goes on while another conversation is open", async () => {
    const page = await open();
    await ask(page, LONG_QUESTION);
    await begun(page);
    await page.click("#new-chat");
    await page.locator("#conversations .busy").waitFor();
    await page.locator("#conversations .open").click();
    await page.click("#stop");
    assert.match(await ended(page), /^w0 w1 w2 /);
    await leave(page);
  });

  test("code is copied as it is", async () => {
    const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
    await ask(page, "Code, please");
    await ended(page);
    await page.getByRole("button", { name: "Copy the code" }).click();
    await page.getByText("Copied").first().waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), '<b onclick="window.harmed=4">code</b>');
    await leave(page);
  });
}
