import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeEndClients, type EndClients } from '../../../tests/helpers/end-clients.ts';
import { spawnWorld, type Spawned, type ProcessWorld } from '../../../tests/helpers/world.ts';

// What somebody without a token, or an end client without a key, can send. The figures are those of the processor and of
// memory, not of the clock, and far from what a refusal costs.
let world: ProcessWorld;
let clients: EndClients;
const test = suite('strangers');
test.before(async () => {
  world = await spawnWorld(['verify'], { TRUSTED_PROXIES: '127.0.0.0/8', FAILED_AUTH_PER_MINUTE: '100' });
  clients = await makeEndClients(world);
});
test.after(() => world?.stop());

test('ten thousand different policies leave verify as small as it was, with and without a token', async () => {
  const { process } = world.verify!;
  const send = (count: number, scopes: number, token: string) => {
    const head = `HTTP/1.1\r\nHost: a\r\n${token && `X-Keytally-Token: ${token}\r\n`}\r\n`;
    const names = Array.from({ length: scopes }, (_, i) => `${'r'.repeat(100)}${i}`);
    const policyOf = (i: number) => `usage=1,scope=${names.map((name) => `${name}.${i}.read`).join('+')}`;
    return sendMany(world.verify!.url, count, (i) => `GET /gateway/plain/${policyOf(i)}/ ${head}`);
  };
  await send(300, 100, '');
  const before = residentMegabytes(process.pid!);
  await send(9_900, 100, '');
  await send(2_000, 100, clients.token);
  await send(10_000, 1, clients.token);
  const grown = residentMegabytes(process.pid!) - before;
  assert.ok(grown < 150, `${Math.round(grown)} MB more`);
});

test('no request of a stranger costs the processor more than some refusals', async () => {
  const head = (path: string, headers: string) => `${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n${headers}\r\n`;
  const verify = `POST ${VERIFY_PATH}`;
  const gateway = 'GET /gateway/plain/usage=1';
  const token = `X-Keytally-Token: ${clients.token}\r\n`;
  const worst: Record<string, string> = {
    'blanks in Authorization': head(`${gateway}/`, `${token}Authorization: Basic a${' '.repeat(14_000)}x\r\n`),
    'Authorization often, beside many keys': head(
      `${gateway}/`,
      `${token}${'Authorization: a b\r\n'.repeat(350)}X-Api-Key: ${','.repeat(7_000)}\r\n`,
    ),
    'a path that looks like a secret': head(
      `${gateway}/${'eyJ'.repeat(4_600)}`,
      `${token}X-Api-Key: ${clients.good.key}\r\n`,
    ),
    'a path that is encoded often': head(`${gateway}/${'%%34%31'.repeat(2_000)}`, `${token}X-Api-Key: none\r\n`),
    'a policy': head(`GET /gateway/plain/usage=1,scope=${'a.read+'.repeat(2_000)}`, ''),
    hops: head(
      verify,
      `X-Forwarded-For: ${Array.from({ length: 1_000 }, (_, i) => `127.0.${i >> 8}.${i & 255}`).join()}\r\n`,
    ),
    'commas as hops': head(verify, `X-Forwarded-For: ${','.repeat(15_000)}1.2.3.4\r\n`),
    'a long address': head(`GET /${'x'.repeat(15_000)}`, ''),
    'dot segments of an absolute address': head(`GET http://a/${'../'.repeat(5_000)}`, ''),
    'a long token': head(verify, `Authorization: Bearer ${'x'.repeat(15_000)}\r\n`),
    'many headers': head('GET /x', Array.from({ length: 1_000 }, (_, i) => `h${i}: 1\r\n`).join('')),
    'an OPTIONS of everything': 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n',
  };
  for (const [server, started] of Object.entries({ verify: world.verify!, api: world.api })) {
    for (const [what, request] of Object.entries(worst)) {
      let [ms, most] = [Infinity, 0];
      for (let i = 0; i < 3 && ms > most; i++) {
        most = MOST_MS + PLAIN_REQUESTS * (await processorMs(started, head('GET /nothing', '')));
        ms = await processorMs(started, request);
      }
      assert.ok(ms <= most, `${server}, ${what}: ${ms} ms each, more than ${most} ms`);
    }
  }
});

test('a client that asks for a tunnel and resets its connection ends no program', async () => {
  for (const { url, process } of [world.verify!, world.api]) {
    for (let i = 0; i < 20; i++) await resetTunnel(url);
    assert.is((await fetch(`${url}/healthz`)).status, 200);
    assert.is(process.exitCode, null);
  }
});

test('a connection that sends thousands of requests at once is closed, and a few ahead are answered', async () => {
  for (const { url } of [world.verify!, world.api]) {
    const few = await speakAll(url, 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(16));
    assert.equal([few.answers, few.cutOff], [16, false]);
    const flood = await speakAll(url, 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2_000));
    assert.is(flood.cutOff, true);
    assert.ok(flood.answers <= 17, `${flood.answers} answers`);
  }
});

test('three hundred requests of strangers that came first do not all go before one on a connection of a client', async () => {
  const { url, process } = world.verify!;
  const order: string[] = [];
  const nothing = 'GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n';
  const open = async (who: string, first: string, status = 404) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write(first);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(answer.toString(), `HTTP/1.1 ${status} `);
    socket.once('data', () => order.push(who));
    return socket;
  };
  const body = JSON.stringify({ key: clients.good.key });
  const head = `Host: a\r\nContent-Type: application/json\r\nAuthorization: Bearer ${clients.token}\r\nContent-Length: ${body.length}`;
  const client = await open('client', `POST ${VERIFY_PATH} HTTP/1.1\r\n${head}\r\n\r\n${body}`, 200);
  const strangers = await Promise.all(Array.from({ length: 300 }, () => open('stranger', nothing)));
  // While it stands still all requests arrive, and it finds them at once.
  process.kill('SIGSTOP');
  for (const socket of [...strangers, client]) socket.write(nothing);
  process.kill('SIGCONT');
  await Promise.all([...strangers, client].map((socket) => once(socket, 'data')));
  for (const socket of [...strangers, client]) socket.destroy();
  assert.ok(order.indexOf('client') < 150, `${order.indexOf('client')} of 300 went first`);
});

test.run();

// A refusal takes 0.1 ms, and a head of 16 KB some more. A busy machine needs longer, also for the plain request just before.
const MOST_MS = 4;
const PLAIN_REQUESTS = 10;
const REQUESTS = 100;

// What one request costs on average. The kernel counts in hundredths of a second.
async function processorMs({ url, process }: Spawned, request: string): Promise<number> {
  const before = ticks(process.pid!);
  await sendMany(url, REQUESTS, () => request);
  return ((ticks(process.pid!) - before) * 10) / REQUESTS;
}

function ticks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

function residentMegabytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
}

/** Sends requests, each after the answer to the one before; on a new connection when the server closed the last one. */
async function sendMany(url: string, count: number, requestOf: (i: number) => string): Promise<void> {
  for (let i = 0; i < count;) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    await new Promise<void>((resolve) => {
      const next = () => (i < count ? socket.write(requestOf(i++)) : socket.destroy());
      // Every answer here is small and comes whole.
      socket.on('connect', next).on('data', next);
      socket.on('error', () => {}).on('close', resolve);
    });
  }
}

// Resets the connection once it was refused, while the server waits for its end.
function resetTunnel(url: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => {}).write('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n');
  socket.once('data', () => socket.resetAndDestroy());
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

/** Sends requests at once, the last of which asks to close; `cutOff`: the server closed before it answered that one. */
async function speakAll(url: string, requests: string): Promise<{ answers: number; cutOff: boolean }> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  let text = '';
  socket.on('error', () => {}).setEncoding('latin1');
  socket.on('data', (part: string) => (text += part));
  const last = `${requests.slice(0, -2)}Connection: close\r\n\r\n`;
  socket.write(last);
  // Not `once`, which would throw where the server cuts the connection off.
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const answers = text.split('HTTP/1.1 404').length - 1;
  return { answers, cutOff: !text.includes('Connection: close') };
}
