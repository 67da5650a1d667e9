// The official JavaScript client, over HTTP and over WebSocket.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';

import { ANSWER, KEY, useServer } from './server.mjs';

const server = useServer();
const messages = [{ role: 'user', content: 'hi' }];
const tokens = Buffer.byteLength(ANSWER) + 1;
const client = (options = {}) =>
  new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0, ...options });

test('a chat is answered', async () => {
  const answer = await client().chat.completions.create({ model: 'fake', messages });
  assert.equal(answer.choices[0].message.content, ANSWER);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.equal(answer.usage.completion_tokens, tokens);
});

test('a chat is streamed, with usage last', async () => {
  const stream = await client().chat.completions.create({
    model: 'fake',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const texts = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '');
  assert.equal(texts.join(''), ANSWER);
  assert.equal(chunks.at(-2).choices[0].finish_reason, 'stop');
  assert.equal(chunks.at(-1).usage.completion_tokens, tokens);
});

test("the client's own accumulator rebuilds several answers", async () => {
  const runner = client().chat.completions.stream({ model: 'fake', messages, n: 2 });
  const final = await runner.finalChatCompletion();
  assert.deepEqual(final.choices.map((choice) => choice.message.content), [ANSWER, ANSWER]);
});

test('a text is completed whole and streamed', async () => {
  const asked = { model: 'fake', prompt: 'hi', max_tokens: 5 };
  const whole = await client().completions.create(asked);
  assert.equal(whole.choices[0].text, 'Hello');
  assert.equal(whole.choices[0].finish_reason, 'length');
  const stream = await client().completions.create({ ...asked, stream: true });
  let text = '';
  for await (const chunk of stream) text += chunk.choices[0].text;
  assert.equal(text, 'Hello');
});

test('models are listed and shown', async () => {
  const ids = [];
  for await (const model of client().models.list()) ids.push(model.id);
  assert.deepEqual(ids, ['fake']);
  assert.equal((await client().models.retrieve('fake')).owned_by, 'legato');
});

test("errors become the client's own", async () => {
  const ask = (fields) =>
    client().chat.completions.create({ model: 'fake', messages, ...fields });
  await assert.rejects(ask({ model: 'gpt' }), OpenAI.NotFoundError);
  await assert.rejects(ask({ max_tokens: 0 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    return error.param === 'max_tokens';
  });
  const stranger = client({ apiKey: 'sk-wrong' });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

test('a client that aborts leaves the server well', async () => {
  for (let round = 0; round < 3; round += 1) {
    const stream = await client().chat.completions.create({
      model: 'fake',
      messages,
      stream: true,
    });
    for await (const _ of stream) break;
    stream.controller.abort();
  }
  const answer = await client().chat.completions.create({ model: 'fake', messages });
  assert.equal(answer.choices[0].message.content, ANSWER);
});

test('responses come over a WebSocket, on two lanes', async () => {
  const socket = new ResponsesWS(client());
  const texts = { a: '', b: '' };
  try {
    const ended = new Promise((resolve, reject) => {
      let left = 2;
      socket.on('error', reject);
      socket.on('response.output_text.delta', (event) => {
        texts[event.stream_id] += event.delta;
      });
      socket.on('response.completed', () => {
        left -= 1;
        if (left === 0) resolve();
      });
    });
    for (const lane of ['a', 'b']) {
      socket.send({ type: 'response.create', model: 'fake', input: 'hi', stream_id: lane });
    }
    await ended;
  } finally {
    socket.close();
  }
  assert.deepEqual(texts, { a: ANSWER, b: ANSWER });
});
