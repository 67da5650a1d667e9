// By keyboard alone, for screen readers, in the dark, on a phone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";

import { answer, ask, begun, ended, entered, LONG_QUESTION, openPage, stage } from "./stage.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { viewport: { width: 375, height: 700 }, isMobile: true, hasTouch: true };

async function open(options) {
  const page = await openPage(stage.server.url, options);
  await entered(page);
  return page;
}

async function leave(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

async function judge(page, part = "html") {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const { violations } = await page.evaluate((where) => window.axe.run(where), part);
  const told = violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 120))]);
  assert.deepEqual(told, []);
}

const focused = (page) => page.evaluate(() => document.activeElement.id);

export function access() {
  for (const [name, options] of Object.entries({
    light: { colorScheme: "light" },
    dark: { colorScheme: "dark" },
    "on a phone": PHONE,
  })) {
    test(`axe finds nothing to complain about, ${name}`, async () => {
      // axe itself needs what the page forbids.
      const page = await open({ bypassCSP: true, ...options });
      await judge(page);
      await page.fill("#question", "Name three rivers.");
      await page.click("#send");
      await ended(page);
      await judge(page);
      await page.click("#settings-open");
      await judge(page, "#settings");
      await page.click("#settings-close");
      if (options === PHONE) {
        await page.click("#history-open");
        await judge(page, "#history");
      }
      await leave(page);
    });
  }

  test("everything can be done by keyboard", async () => {
    const page = await open();
    assert.equal(await focused(page), "question");
    await page.keyboard.type("Name three rivers.");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("Please.");
    await page.keyboard.press("Enter");
    await ended(page);
    assert.equal(await page.locator(".user .body").innerText(), "Name three rivers.\nPlease.");
    assert.equal(await focused(page), "question");
    // The last question, again and different.
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Control+A");
    await page.keyboard.insertText(LONG_QUESTION);
    await page.keyboard.press("Control+Enter");
    await begun(page);
    await page.keyboard.press("Escape");
    assert.doesNotMatch(await ended(page), /w249/);
    assert.equal(await focused(page), "question");
    // Backwards from the message box: the answer's own buttons, then those of the page.
    const names = new Set();
    for (let presses = 0; presses < 25; presses += 1) {
      await page.keyboard.press("Shift+Tab");
      names.add(await page.evaluate(() => {
        const { ariaLabel, textContent } = document.activeElement;
        return ariaLabel ?? textContent.trim();
      }));
    }
    for (const name of ["Regenerate", "Copy", "Edit", "Settings", "New conversation", "Skip to the message box", "Skip to the last answer"]) {
      assert.ok(names.has(name), `${name} is not reached: ${[...names].join(", ")}`);
    }
    await page.focus("#to-answer");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.className), "message assistant");
    await leave(page);
  });

  test("a panel takes the focus and gives it back", async () => {
    const page = await open(PHONE);
    for (const name of ["settings", "history"]) {
      await page.focus(`#${name}-open`);
      await page.keyboard.press("Enter");
      assert.ok(await page.evaluate((id) => document.activeElement.closest(`#${id}`) !== null, name));
      assert.equal(await page.getAttribute(`#${name}-open`, "aria-expanded"), "true");
      assert.ok(await page.evaluate(() => document.querySelector("main").inert));
      await page.keyboard.press("Escape");
      assert.equal(await focused(page), `${name}-open`);
      assert.ok(await page.isHidden(`#${name}`));
      assert.equal(await page.evaluate(() => document.querySelector("main").inert), false);
    }
    await leave(page);
  });

  test("a screen reader hears the beginning and the end, and not every word", async () => {
    const page = await open();
    await page.evaluate(() => {
      window.heard = [];
      const region = document.getElementById("announcer");
      new MutationObserver(() => window.heard.push(region.textContent)).observe(region, { childList: true });
    });
    await ask(page, "Name three rivers.");
    await ended(page);
    await page.waitForFunction(() => window.heard.length > 1);
    const heard = await page.evaluate(() => window.heard);
    assert.equal(heard[0], "Answering.");
    assert.equal(heard.length, 2);
    assert.match(heard[1], /Legato said: /);
    assert.equal(await page.locator("[aria-live], [role=log], [role=alert], [role=status]").count(), 2);
    await leave(page);
  });

  test("the theme is chosen, kept, and there before the first paint", async () => {
    const page = await open({ colorScheme: "light" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.click("#theme");
    assert.equal(await ground(), light);
    await page.click("#theme");
    assert.notEqual(await ground(), light);
    await page.reload({ waitUntil: "commit" });
    await page.waitForSelector("body");
    assert.equal(await page.getAttribute("html", "data-theme"), "dark");
    await entered(page);
    await leave(page);
  });

  test("nothing is wider than a phone", async () => {
    const page = await open(PHONE);
    await page.fill("#question", `${"x".repeat(300)} wide`);
    await page.click("#send");
    await ended(page);
    const [width, inner] = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.getElementById("scroller");
      return [scrollWidth, clientWidth];
    });
    assert.ok(width <= inner, `${width} > ${inner}`);
    await leave(page);
  });

  test("the text follows its end until the reader scrolls away", async () => {
    const page = await open({ viewport: { width: 600, height: 400 } });
    await ask(page, LONG_QUESTION);
    await begun(page);
    const fromEnd = () =>
      page.evaluate(() => {
        const { scrollTop, scrollHeight, clientHeight } = document.getElementById("scroller");
        return scrollHeight - scrollTop - clientHeight;
      });
    await page.waitForFunction(() => document.getElementById("scroller").scrollTop > 100);
    assert.ok((await fromEnd()) < 60);
    await page.evaluate(() => (document.getElementById("scroller").scrollTop = 0));
    await page.locator("#latest").waitFor();
    await page.waitForTimeout(100);
    assert.equal(await page.evaluate(() => document.getElementById("scroller").scrollTop), 0);
    await page.click("#latest");
    await page.click("#stop");
    await ended(page);
    assert.ok((await fromEnd()) < 60);
    assert.equal(await answer(page).getAttribute("aria-busy"), "false");
    await leave(page);
  });
}
