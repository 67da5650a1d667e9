// The AI SDK against the real server: its chat over both of its transports, and useChat
// in a React page.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, WebSocketChatTransport } from 'ai';
import WebSocket from 'ws';

import { ANSWER, KEY, useServer } from './server.mjs';

const server = useServer();
const headers = { authorization: `Bearer ${KEY}` };
const opened = [];

// Programs carry the key in the handshake; this is how `ws` is told to.
class KeyedWebSocket extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols, { headers });
  }
}

const transports = {
  'over HTTP': () => new DefaultChatTransport({ api: `${server.url}/api/chat`, headers }),
  'over WebSocket': () => {
    const url = `${server.url}/v1/chat`;
    const transport = new WebSocketChatTransport({ url, webSocket: KeyedWebSocket });
    opened.push(transport);
    return transport;
  },
};
after(() => opened.forEach((transport) => transport.close()));

const textOf = (message) =>
  message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

/** Wait until something holds of a chat. */
async function until(chat, holds) {
  if (holds()) return;
  await new Promise((resolve) => {
    const stop = chat['~registerMessagesCallback'](() => {
      if (!holds()) return;
      stop();
      resolve();
    });
  });
}

for (const [how, transport] of Object.entries(transports)) {
  test(`a conversation ${how}`, async () => {
    const chat = new Chat({ transport: transport(), onError: assert.fail });
    for (let turn = 1; turn <= 2; turn += 1) {
      await chat.sendMessage({ text: 'hi' });
      assert.equal(chat.status, 'ready');
      assert.equal(chat.messages.length, 2 * turn);
      assert.equal(textOf(chat.messages.at(-1)), ANSWER);
    }
    const { usage } = chat.messages.at(-1).metadata;
    assert.ok(usage.inputTokenDetails.cacheReadTokens > 0, 'turns share their prefix');
    await chat.regenerate();
    assert.equal(chat.messages.length, 4);
    assert.equal(textOf(chat.messages.at(-1)), ANSWER);
  });

  test(`what the application asks for ${how}`, async () => {
    const chat = new Chat({ transport: transport(), onError: assert.fail });
    const body = { max_output_tokens: 5, system: 'be brief' };
    await chat.sendMessage({ text: 'hi' }, { body });
    assert.equal(textOf(chat.messages.at(-1)), 'Hello');
  });

  test(`a refused request is the page's error ${how}`, async () => {
    const chat = new Chat({ transport: transport(), onError: () => {} });
    await chat.sendMessage({ text: 'hi' }, { body: { model: 'gpt' } });
    assert.equal(chat.status, 'error');
    assert.match(chat.error.message, /gpt/);
    chat.clearError();
    await chat.sendMessage({ text: 'hi' });
    assert.equal(textOf(chat.messages.at(-1)), ANSWER);
  });

  test(`a stopped answer keeps its text and the chat goes on ${how}`, async () => {
    const chat = new Chat({ transport: transport(), onError: assert.fail });
    const body = { ignore_eos: true, max_output_tokens: 400 };
    const answer = chat.sendMessage({ text: 'hi' }, { body });
    await until(chat, () => chat.messages.length === 2 && textOf(chat.lastMessage) !== '');
    await chat.stop();
    await answer;
    assert.equal(chat.status, 'ready');
    assert.ok(textOf(chat.lastMessage).length < 400);
    await chat.sendMessage({ text: 'and?' });
    assert.equal(textOf(chat.lastMessage), ANSWER);
  });

  test(`a page that was closed in mid-answer reads on ${how}`, async () => {
    const id = `chat-${how}`;
    const body = { ignore_eos: true, max_output_tokens: 200 };
    const sent = { chatId: id, trigger: 'submit-message', messageId: undefined };
    const user = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'hi' }] };
    const first = transport();
    const stream = await first.sendMessages({ ...sent, messages: [user], body });
    const reader = stream.getReader();
    const { value: start } = await reader.read();
    // The page goes away: its connection, not a stop.
    if (first.close) first.close();
    else await reader.cancel();

    const page = { id, messages: [user], transport: transport(), onError: assert.fail };
    const chat = new Chat(page);
    await chat.resumeStream();
    assert.equal(chat.messages.length, 2);
    assert.equal(chat.lastMessage.id, start.messageId);
    assert.equal(chat.lastMessage.metadata.usage.outputTokens, 200);
  });

  test(`nothing to resume leaves a page as it was ${how}`, async () => {
    const chat = new Chat({ transport: transport(), onError: assert.fail });
    await chat.resumeStream();
    assert.equal(chat.status, 'ready');
    assert.equal(chat.messages.length, 0);
  });
}
