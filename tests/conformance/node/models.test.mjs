import assert from 'node:assert/strict';
import { test } from 'node:test';

import { KEY, useServer } from './server.mjs';

const server = useServer();

test('the server under test asks for its key and lists its model', async () => {
  const refused = await fetch(`${server.url}/v1/models`);
  assert.equal(refused.status, 401);
  const headers = { authorization: `Bearer ${KEY}` };
  const listed = await fetch(`${server.url}/v1/models`, { headers });
  assert.equal((await listed.json()).data[0].id, 'fake');
});
