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
  await eventually('they are closed', async () => sockets.every((socket) => socket.closed), 60_000);
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
    await eventually(`${what}: all are cut off`, async () => sockets.every((socket) => socket.closed), 60_000);
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

test.run();

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
