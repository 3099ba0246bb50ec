import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeCall } from './call.ts';
import { startNameServer } from './helpers/name-server.ts';
import { makeReceiverCertificate, startReceiver } from './helpers/receiver.ts';
import { makeResolve, type Resolve } from './resolve.ts';

const message = { teamId: 'team_a', headers: { 'content-type': 'application/json' }, body: '{"a":1}' };
let answers: Record<string, string[] | 'silence'> = {};
let connections = 0;

const certificate = makeReceiverCertificate();
setDefaultCACertificates([...getCACertificates('default'), readFileSync(certificate.certificate, 'utf8')]);
const receiver = await startReceiver(certificate);
const names = await startNameServer((name) => answers[name] ?? []);
const inside = createServer((socket) => {
  connections += 1;
  socket.destroy();
});
await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve));
test.after(async () => {
  inside.close();
  await Promise.all([receiver.stop(), names.stop()]);
});

const toReceiver: Resolve = async () => [{ address: '127.0.0.1', family: 4 }];
const allowed = ({ target }: { target: string }) => ({ team: 'team_a', target });
const insidePort = () => (inside.address() as AddressInfo).port;

test('it posts the message to the checked address, under the name for TLS and Host', async () => {
  const call = makeCall(toReceiver, [], systemClock);
  const { status, answer, error } = await call({
    url: `https://hooks.example.com:${receiver.port}/in?x=1`,
    ...message,
  });
  assert.equal([status, answer, error], [200, 'thanks', undefined]);
  const { path, headers, body, servername } = receiver.got.at(-1)!;
  assert.equal(
    [path, headers.host, headers['content-type'], body, servername],
    ['/in?x=1', `hooks.example.com:${receiver.port}`, 'application/json', '{"a":1}', 'hooks.example.com'],
  );
});

test('a certificate of another name is refused', async () => {
  const { status, error } = await makeCall(
    toReceiver,
    [],
    systemClock,
  )({ url: `https://other.example.com:${receiver.port}/`, ...message });
  assert.is(status, undefined);
  assert.match(error!, /other\.example\.com/);
});

for (const [what, addresses] of Object.entries({
  'this machine': ['127.0.0.1'],
  'this machine by IPv6': ['::1'],
  'a private network': ['10.0.0.7'],
  'the metadata of a cloud': ['169.254.169.254'],
  'a shared network (CGNAT)': ['100.100.100.200'],
  'an address mapped into IPv6': ['::ffff:127.0.0.1'],
  'a translation (NAT64)': ['64:ff9b::7f00:1'],
  'a tunnel (6to4)': ['2002:7f00:1::'],
  'a public and an inside address': ['93.184.216.34', '127.0.0.1'],
  'a public and an inside IPv6 address': ['93.184.216.34', 'fd00::1'],
}))
  test(`a name that resolves to ${what} is not called`, async () => {
    answers = { 'evil.example.com': addresses };
    connections = 0;
    const call = makeCall(makeResolve([names.address]), [], systemClock);
    const { error } = await call({ url: `https://evil.example.com:${insidePort()}/`, ...message });
    assert.is(error, 'the name evil.example.com has an address that is not public');
    assert.is(connections, 0);
  });

test('a name that changes between check and use is asked once, and what was checked is connected to', async () => {
  answers = { 'rebind.example.com': ['192.0.0.1'] };
  const resolve = makeResolve([names.address]);
  let checked = 0;
  const call = makeCall(
    async (target, signal) => {
      // As if the name had been public at this moment: from now on it says an address inside.
      checked += 1;
      await resolve(target, signal).catch(() => {});
      answers = { 'rebind.example.com': ['127.0.0.2'] };
      names.asked.length = 0;
      return [{ address: '127.0.0.1', family: 4 }];
    },
    [],
    systemClock,
  );
  const { error } = await call({ url: `https://rebind.example.com:${insidePort()}/`, ...message });
  assert.ok(error, 'the certificate is of another name');
  assert.equal([checked, names.asked], [1, []]);
});

test('a kept connection that the receiver has closed is no failure of the receiver', async () => {
  const asked = new Set<unknown>();
  let closed = 0;
  const closing = await startReceiver(certificate, (_, response) => {
    const { socket } = response;
    if (!asked.has(socket)) return void (asked.add(socket), response.end());
    // As if it had closed the connection a moment before.
    closed += 1;
    socket!.destroy();
  });
  const call = makeCall(makeResolve(), [allowed(closing)], systemClock);
  let calls = 0;
  for (; closed < 2; calls += 1) assert.is((await call({ url: closing.url, ...message })).status, 200);
  assert.is(closing.got.length, calls + closed);
  await closing.stop();
});

test('a URL that was stored before a rule, or by another way, is checked again', async () => {
  for (const url of [
    'https://127.0.0.1/',
    'http://hooks.example.com/',
    'https://a:b@hooks.example.com/',
    'https://localhost/',
  ]) {
    const { error } = await makeCall(toReceiver, [], systemClock)({ url, ...message });
    assert.match(error!, /^the URL must/, url);
  }
});

test('an allowed target is reached inside, its neighbour on another port is not', async () => {
  connections = 0;
  const call = makeCall(makeResolve(), [allowed(receiver)], systemClock);
  assert.is((await call({ url: receiver.url, ...message })).status, 200);
  const { error } = await call({ url: `https://127.0.0.1:${insidePort()}/`, ...message });
  assert.is(error, 'the URL must have the name of a host, not an address');
  assert.is(connections, 0);
});

test('no redirect is followed', async () => {
  const other = await startReceiver(certificate, (_, response) => {
    response.writeHead(307, { location: receiver.url }).end();
  });
  const before = receiver.got.length;
  const { status } = await makeCall(
    makeResolve(),
    [allowed(other), allowed(receiver)],
    systemClock,
  )({ url: other.url, ...message });
  assert.equal([status, receiver.got.length], [307, before]);
  await other.stop();
});

test('no proxy of the environment is asked', async () => {
  connections = 0;
  const proxy = `http://127.0.0.1:${insidePort()}`;
  Object.assign(process.env, { HTTPS_PROXY: proxy, https_proxy: proxy, NODE_USE_ENV_PROXY: '1' });
  const { status } = await makeCall(
    toReceiver,
    [],
    systemClock,
  )({ url: `https://hooks.example.com:${receiver.port}/`, ...message });
  for (const name of ['HTTPS_PROXY', 'https_proxy', 'NODE_USE_ENV_PROXY']) delete process.env[name];
  assert.equal([status, connections], [200, 0]);
});

test('an answer is cut at 64 KB, and its first 1 KB is kept, or 200 bytes of one inside', async () => {
  let sent = 0;
  const endless = await startReceiver(certificate, (_, response) => {
    const more = () => {
      while (!response.destroyed && response.write('x'.repeat(16_384))) sent += 16_384;
    };
    response.on('drain', more).on('error', () => {});
    more();
  });
  for (const [call, url, kept] of [
    [makeCall(makeResolve(), [allowed(endless)], systemClock), endless.url, 200],
    [makeCall(toReceiver, [], systemClock), `https://hooks.example.com:${endless.port}/`, 1_024],
  ] as const) {
    const { status, answer, error } = await call({ url, ...message });
    assert.equal([status, answer, error], [200, 'x'.repeat(kept), undefined]);
  }
  // What the sockets' buffers took, and no more.
  assert.ok(sent < 20_000_000, String(sent));
  await endless.stop();
});

test('a target inside is called for the team that it is allowed to, or for all by *, and for no other', async () => {
  const url = receiver.url;
  const tries = async (team: string) => {
    const call = makeCall(makeResolve(), [{ team, target: receiver.target }], systemClock);
    const { status, error } = await call({ ...message, url });
    return status ?? error;
  };
  assert.equal(
    [await tries('team_a'), await tries('*'), await tries('team_b')],
    [200, 200, 'the URL must have the name of a host, not an address'],
  );
});

test('an answer that is no text for Postgres is made one', async () => {
  const odd = await startReceiver(certificate, (_, response) => void response.end(Buffer.from([0, 255, 65])));
  assert.is(
    (await makeCall(makeResolve(), [allowed(odd)], systemClock)({ url: odd.url, ...message })).answer,
    '\ufffd\ufffdA',
  );
  await odd.stop();
});
