import { Agent, request as ask } from 'node:http';
import { connect, type Socket } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

const IDLE = 10_000;
let world: World;
const test = suite('hostile load');
test.before(async () => {
  world = await makeWorld(['api', 'verify']);
  await eventually('verify answers', async () => (await verified()).status === 200);
});
test.after(() => world?.stop());

test('ten thousand idle connections do not stop verify, and are closed if they send no request', async () => {
  const sockets = await openMany(IDLE);
  assert.is((await verified()).status, 200);
  await eventually('they are closed', async () => sockets.every((socket) => socket.closed));
  assert.is((await verified()).status, 200);
});

test('a client that sends its head or body too slowly gets 408, and delays nobody', async () => {
  const head = `POST ${VERIFY_PATH} HTTP/1.1\r\nHost: x\r\n`;
  const beginnings = {
    head,
    body: `${head}Authorization: Bearer ${world.team.token}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
  };
  for (const [what, beginning] of Object.entries(beginnings)) {
    const sockets = await openMany(200);
    const said = new Map(sockets.map((socket) => [socket, '']));
    for (const socket of sockets) {
      socket.on('data', (bytes: Buffer) => said.set(socket, said.get(socket)! + bytes.toString('latin1')));
      socket.write(beginning);
    }
    const dribbling = setInterval(() => sockets.forEach((socket) => socket.writable && socket.write('x')), 250);
    assert.is((await verified()).status, 200, what);
    await eventually(`${what}: all are cut off`, async () => sockets.every((socket) => socket.closed));
    clearInterval(dribbling);
    const cutOff = [...said.values()].filter((text) => /^HTTP\/1\.1 408 .*"code":40801/s.test(text));
    assert.ok(cutOff.length > 0, `${what}: ${[...said.values()][0]}`);
    assert.is((await verified()).status, 200, what);
  }
});

test('connections beyond MAX_CONNECTIONS are closed at once', async () => {
  const small = await world.start('verify', { MAX_CONNECTIONS: '20' });
  const sockets = await openMany(40, small.url);
  await eventually('some are closed', async () => sockets.filter((socket) => socket.closed).length >= 20);
  assert.is(sockets.filter((socket) => !socket.closed).length <= 20, true);
  sockets.forEach((socket) => socket.destroy());
  await eventually('it serves again', async () => (await verified(small.url)).status === 200);
  await small.stop();
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
        const another = new Agent();
        const answer = await askWith(another, small.url);
        assert.is(answer.status, 200, `${program} serves a new client beside strangers who send "${sent}"`);
      }
      const again = await askWith(client, small.url);
      assert.is(again.status, 200);
      assert.is(again.port, first.port, `${program} kept the connection of a client that has authenticated`);
      await eventually('the oldest are closed', async () => strangers.filter((one) => one.closed).length >= 200);
      strangers.forEach((socket) => socket.destroy());
    }
    client.destroy();
    await small.stop();
  }
});

test.run();

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

const verified = (url = world.verify!.url) => world.call('post', url + VERIFY_PATH, { key: 'none' });

async function openMany(count: number, url = world.verify!.url): Promise<Socket[]> {
  const port = Number(new URL(url).port);
  const sockets: Socket[] = [];
  // In portions that fit into the queue of new connections.
  while (sockets.length < count) {
    const portion = Array.from({ length: Math.min(200, count - sockets.length) }, () => connect(port, '127.0.0.1'));
    await Promise.all(
      portion.map(
        (socket) =>
          new Promise<void>((resolve) => {
            socket.once('connect', resolve).once('close', () => resolve());
            socket.on('error', () => {}).resume();
          }),
      ),
    );
    sockets.push(...portion);
  }
  return sockets;
}
