// A server for the clients under test: ../server.py, by Legato's own Python.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';

export const ANSWER = 'Hello, wörld 🌍!';
export const KEY = 'sk-right';

/** Start a server before the file's tests and stop it after; `.url` is its address. */
export function useServer(...args) {
  const server = {};
  let child;
  before(async () => {
    const script = new URL('../server.py', import.meta.url).pathname;
    child = spawn(process.env.LEGATO_PYTHON ?? 'python3', [script, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    for await (const line of createInterface(child.stdout)) {
      server.url = line;
      return;
    }
    throw new Error('the server ended before it was ready');
  });
  after(async () => {
    const ended = once(child, 'exit');
    child.stdin.end();
    const [code] = await ended;
    if (code !== 0) throw new Error(`the server ended with ${code}`);
  });
  return server;
}
