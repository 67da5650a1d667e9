// Legato's own client against the real server, over a socket that can be cut.

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';

import WebSocket from 'ws';

import {
  LegatoClient,
  RequestRefused,
  ResponseLost,
} from '../../../legato/serve/playground/legato.js';
import { ANSWER, KEY, useServer } from './server.mjs';

const server = useServer();
const sockets = [];
const clients = [];

class CutSocket extends WebSocket {
  constructor(...args) {
    super(...args);
    sockets.push(this);
  }
}

function connect(options = {}) {
  const url = `${server.url.replace('http', 'ws')}/v1/responses`;
  const client = new LegatoClient({ url, apiKey: KEY, WebSocket: CutSocket, ...options });
  clients.push(client);
  return client;
}

afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

async function read(answer) {
  let text = '';
  for await (const piece of answer.text()) text += piece;
  return text;
}

// Read until so many characters are there; the iterator stays open.
async function readSome(pieces, count) {
  let text = '';
  while (text.length < count) text += (await pieces.next()).value;
  return text;
}

test('it reads an answer to its end', async () => {
  const answer = connect().respond({ input: 'hi' });
  assert.equal(await read(answer), ANSWER);
  const response = await answer.response();
  assert.equal(response.status, 'completed');
  assert.ok(response.usage.output_tokens > 5);
});

test('a cut connection loses no character, with credit and without', async () => {
  for (const credit of [0, 4]) {
    const answer = connect().respond({ input: 'hi' }, { credit });
    const pieces = answer.text();
    let text = await readSome(pieces, 1);
    for (let cuts = 0; cuts < 3; cuts += 1) {
      sockets.at(-1).terminate();
      const { value } = await pieces.next();
      text += value ?? '';
    }
    for await (const piece of pieces) text += piece;
    assert.equal(text, ANSWER);
  }
});

test('credit holds an answer until it is read', async () => {
  const answer = connect().respond({ input: 'hi' }, { credit: 2 });
  const pieces = answer.text();
  const first = await readSome(pieces, 1);
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.equal(answer.ended, false);
  let text = first;
  for await (const piece of pieces) text += piece;
  assert.equal(text, ANSWER);
});

test('another client takes an answer over', async () => {
  const one = connect().respond({ input: 'hi' }, { credit: 4 });
  const pieces = one.text();
  const begun = await readSome(pieces, 1);
  const two = connect().resume(one.id, { startingAfter: one.sequence, credit: 64 });
  const rest = await read(two);
  assert.ok(ANSWER.endsWith(rest));
  assert.ok(begun.length + rest.length <= ANSWER.length);
  assert.equal((await two.response()).id, one.id);
});

test('a turn continues from the one before', async () => {
  const client = connect();
  const first = client.respond({ input: 'one' });
  await read(first);
  const second = client.respond({ input: 'two', previous_response_id: first.id });
  assert.equal(await read(second), ANSWER);
});

test('stop and cancel end an answer that is held', async () => {
  const client = connect();
  for (const [verb, status] of [['stop', 'incomplete'], ['cancel', 'cancelled']]) {
    const answer = client.respond({ input: 'hi' }, { credit: 2 });
    const events = answer[Symbol.asyncIterator]();
    while ((await events.next()).value.type !== 'response.output_text.delta');
    answer[verb]();
    assert.equal((await answer.response()).status, status);
  }
});

test('refusals and losses are typed', async () => {
  const client = connect();
  await assert.rejects(client.respond({ input: 'hi', temperature: -1 }).response(), (error) => {
    assert.ok(error instanceof RequestRefused);
    assert.equal(error.param, 'temperature');
    return true;
  });
  await assert.rejects(client.resume('resp_never').response(), ResponseLost);
});

test('a key that is no subprotocol comes as the first frame', async () => {
  const answer = connect({ apiKey: 'sk/wrong=' }).respond({ input: 'hi' });
  await assert.rejects(answer.response(), { name: 'RequestRefused', status: 401 });
});

test('a quiet server is asked, and answers', async () => {
  const client = connect({ silenceMs: 50 });
  const answer = client.respond({ input: 'hi' }, { credit: 1 });
  const pieces = answer.text();
  let text = await readSome(pieces, 1);
  const before = sockets.length;
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.equal(sockets.length, before);
  for await (const piece of pieces) text += piece;
  assert.equal(text, ANSWER);
});
