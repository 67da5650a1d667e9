// A React page with useChat, unchanged but for the address of the server.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { JSDOM } from 'jsdom';

import { ANSWER, KEY, useServer } from './server.mjs';

const server = useServer();
const dom = new JSDOM('<div id="root"></div>', { url: 'http://localhost:3000' });
globalThis.window = dom.window;
globalThis.document = dom.window.document;
// Newer versions of node have one of their own.
globalThis.navigator ??= dom.window.navigator;
after(() => dom.window.close());

const { createElement: h } = await import('react');
const { createRoot } = await import('react-dom/client');
const { useChat } = await import('@ai-sdk/react');
const { DefaultChatTransport } = await import('ai');

function Page({ transport }) {
  const { messages, sendMessage, status } = useChat({ transport });
  const said = messages.map((message) =>
    h(
      'li',
      { key: message.id },
      message.parts.map((part) => (part.type === 'text' ? part.text : '')),
    ),
  );
  const ask = () => sendMessage({ text: 'hi' });
  return h('main', { 'data-status': status }, h('button', { onClick: ask }), said);
}

/** Wait until something holds of the page. */
function seen(holds) {
  return new Promise((resolve) => {
    const look = () => {
      if (!holds()) return;
      observer.disconnect();
      resolve();
    };
    const observer = new dom.window.MutationObserver(look);
    const all = { subtree: true, childList: true, characterData: true, attributes: true };
    observer.observe(document.body, all);
    look();
  });
}

test('a page with useChat shows the answer', async () => {
  const headers = { authorization: `Bearer ${KEY}`, origin: 'http://localhost:3000' };
  const api = `${server.url}/api/chat`;
  const root = createRoot(document.getElementById('root'));
  root.render(h(Page, { transport: new DefaultChatTransport({ api, headers }) }));
  await seen(() => document.querySelector('button'));
  document.querySelector('button').click();
  const ready = () => document.querySelector('main').dataset.status === 'ready';
  await seen(() => document.querySelectorAll('li').length === 2 && ready());
  const texts = [...document.querySelectorAll('li')].map((item) => item.textContent);
  assert.deepEqual(texts, ['hi', ANSWER]);
  root.unmount();
});
