import { Agent, request as ask } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { eventually, spawnWorld } from '../../../tests/helpers/world.ts';

// What somebody without a token can do to a server with connections and requests.

const world = await spawnWorld(['verify'], { FAILED_AUTH_PER_MINUTE: '100' });

test('ten thousand idle connections do not stop verify, and are closed if they send no request', async () => {
  const sockets = await openMany(10_000);
  assert.is((await verified()).status, 200);
  await eventually('they are closed', async () => sockets.every((socket) => socket.closed));
  assert.is((await verified()).status, 200);
});

test('strangers who hold all connections, silent or asking, are closed for clients and never shut one out', async () => {
  for (const program of ['api', 'verify'] as const) {
    const small = await world.start(program, { MAX_CONNECTIONS: '100' });
    const client = new Agent({ keepAlive: true, maxSockets: 1 });
    const first = await askWith(client, small.url);
    for (const sent of ['', 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n', `POST ${VERIFY_PATH} HTTP/1.1\r\nHost:`]) {
      const strangers: Socket[] = [];
      // Each beyond the limit closes another stranger, and one that comes again takes a stranger's place, too.
      for (let i = 0; i < 5; i++) {
        const more = await openMany(60, small.url);
        for (const socket of more) socket.write(sent);
        strangers.push(...more);
        const { status } = await askWith(new Agent(), small.url);
        assert.is(status, 200, `${program} serves a new client beside strangers who send "${sent}"`);
      }
      const again = await askWith(client, small.url);
      assert.equal([again.status, again.port], [200, first.port], `${program} kept the connection of a client`);
      await eventually('the oldest are closed', async () => strangers.filter((one) => one.closed).length >= 200);
      strangers.forEach((socket) => socket.destroy());
    }
    client.destroy();
    await small.stop();
  }
});

test('a client that asks for a tunnel and resets its connection ends no program', async () => {
  for (const { url, process } of [world.verify!, world.api]) {
    for (let i = 0; i < 20; i++) {
      const socket = connectTo(url);
      socket.on('error', () => {}).write('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n');
      // Once it was refused, while the server waits for its end.
      socket.once('data', () => socket.resetAndDestroy());
      await new Promise((resolve) => socket.once('close', resolve));
    }
    assert.is((await fetch(`${url}/healthz`)).status, 200);
    assert.is(process.exitCode, null);
  }
});

test('a connection that sends thousands of requests at once is closed, and a few ahead are answered', async () => {
  for (const { url } of [world.verify!, world.api]) {
    for (const [requests, wanted] of [
      [16, { answers: 16, cutOff: false }],
      [2_000, { answers: 17, cutOff: true }],
    ] as const) {
      const { answers, cutOff } = await speakAll(url, 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(requests));
      assert.is(cutOff, wanted.cutOff);
      assert.ok(cutOff ? answers <= wanted.answers : answers === wanted.answers, `${answers} answers`);
    }
  }
});

const verified = () => world.call('post', world.verify!.url + VERIFY_PATH, { key: 'none' });

function connectTo(url: string): Socket {
  return connect(Number(new URL(url).port), '127.0.0.1');
}

async function openMany(count: number, url = world.verify!.url): Promise<Socket[]> {
  const sockets: Socket[] = [];
  // In portions that fit into the queue of new connections.
  while (sockets.length < count) {
    const portion = Array.from({ length: Math.min(200, count - sockets.length) }, () => connectTo(url));
    const opened = portion.map(
      (socket) =>
        new Promise<void>((resolve) => {
          socket.once('connect', resolve).once('close', () => resolve());
          socket.on('error', () => {}).resume();
        }),
    );
    await Promise.all(opened);
    sockets.push(...portion);
  }
  return sockets;
}

/** Verifies on a connection of an agent; gives the status, and the connection's own port. */
function askWith(agent: Agent, url: string): Promise<{ status: number | undefined; port: number | undefined }> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${world.team.token}`, 'Content-Type': 'application/json' };
    const asked = ask(url + VERIFY_PATH, { method: 'POST', agent, headers }, (response) => {
      const port = response.socket.localPort;
      response.resume().once('end', () => resolve({ status: response.statusCode, port }));
    });
    asked.once('error', reject).end('{"key": "none"}');
  });
}

/** Sends requests at once, the last of which asks to close; `cutOff`: the server closed before it answered that one. */
async function speakAll(url: string, requests: string): Promise<{ answers: number; cutOff: boolean }> {
  const socket = connectTo(url);
  let text = '';
  socket.on('error', () => {}).setEncoding('latin1');
  socket.on('data', (part: string) => (text += part));
  socket.write(`${requests.slice(0, -2)}Connection: close\r\n\r\n`);
  // Not `once`, which would throw where the server cuts the connection off.
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return { answers: text.split('HTTP/1.1 404').length - 1, cutOff: !text.includes('Connection: close') };
}
