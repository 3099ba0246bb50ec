import { readFileSync } from 'node:fs';
import { createServer, isIP } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { eventually } from '../../tests/helpers/eventually.ts';
import { listen } from '../../tests/helpers/listen.ts';
import { makeCall, makeResolve, type NameServers, type Resolve } from './call.ts';
import { makeReceiverCertificate, startReceiver } from './helpers/receiver.ts';

const message = { teamId: 'team_a', headers: { 'content-type': 'application/json' }, body: '{"a":1}' };
const asked: string[] = [];
let answers: Record<string, string[] | 'silence'> = {};
let connections = 0;

const certificate = makeReceiverCertificate();
setDefaultCACertificates([...getCACertificates('default'), readFileSync(certificate.certificate, 'utf8')]);
const receiver = await startReceiver(certificate);
const inside = createServer((socket) => {
  connections += 1;
  socket.destroy();
});
const { port: insidePort } = await listen(inside);

const toReceiver: Resolve = async () => [{ address: '127.0.0.1', family: 4 }];
const evil = () => ({ url: `https://evil.example.com:${insidePort}/`, ...message });

/** Asks name servers that answer as `answers` says at that moment. */
const byNames = makeResolve(() => {
  const ask = async (name: string, family: number) => {
    asked.push(name);
    const found = answers[name] ?? [];
    if (found === 'silence') return new Promise<string[]>(() => {});
    return found.filter((one) => isIP(one) === family);
  };
  return { resolve4: (name: string) => ask(name, 4), resolve6: (name: string) => ask(name, 6) } as NameServers;
});

/** Calls receivers of this machine, which the team may. */
function callInside(...receivers: { target: string }[]) {
  const allowed = receivers.map(({ target }) => ({ team: 'team_a', target }));
  return makeCall(makeResolve(), allowed, systemClock);
}

test('it posts the message to the checked address, under the name for TLS and Host; another name’s certificate is refused', async () => {
  const call = makeCall(toReceiver, [], systemClock);
  const answered = await call({ url: `https://hooks.example.com:${receiver.port}/in?x=1`, ...message });
  assert.equal([answered.status, answered.answer, answered.error], [200, 'thanks', undefined]);
  const { path, headers, body, servername } = receiver.got.at(-1)!;
  assert.equal(
    [path, headers.host, headers['content-type'], body, servername],
    ['/in?x=1', `hooks.example.com:${receiver.port}`, 'application/json', '{"a":1}', 'hooks.example.com'],
  );
  const { status, error, isUnsent } = await call({ url: `https://other.example.com:${receiver.port}/`, ...message });
  assert.equal([status, isUnsent], [undefined, true]);
  assert.match(error!, /other\.example\.com/);
});

test('a name that resolves to any address that is not public is not called', async () => {
  connections = 0;
  for (const addresses of [['127.0.0.1'], ['64:ff9b::7f00:1'], ['93.184.216.34', 'fd00::1']]) {
    answers = { 'evil.example.com': addresses };
    const { error } = await makeCall(byNames, [], systemClock)(evil());
    assert.is(error, 'the name evil.example.com has an address that is not public', addresses.join());
  }
  assert.is(connections, 0);
});

test('a name that changes between check and use is asked once, and what was checked is connected to', async () => {
  let checked = 0;
  const resolve: Resolve = async (name) => {
    // As if the name had been public at this moment: from now on it says an address inside.
    checked += 1;
    await byNames(name).catch(() => {});
    answers = { 'evil.example.com': ['127.0.0.2'] };
    asked.length = 0;
    return [{ address: '127.0.0.1', family: 4 }];
  };
  const { error } = await makeCall(resolve, [], systemClock)(evil());
  assert.ok(error, 'the certificate is of another name');
  assert.equal([checked, asked], [1, []]);
});

test('a name without an address, servers of names that say nothing, and an answer that does not come or never ends end the call in its time', async () => {
  const clock = makeTestClock();
  const silent = await startReceiver(certificate, () => {});
  const trickling = await startReceiver(certificate, (_, response) => void response.write('so far'));
  const allowed = [silent, trickling].map(({ target }) => ({ team: '*', target }));
  answers = { 'silent.example.com': 'silence' };
  const none = await makeCall(byNames, [], clock)({ url: 'https://none.example.com/', ...message });
  assert.is(none.error, 'the name none.example.com has no address');

  const given = async (resolve: Resolve, url: string, isUnderWay: () => boolean) => {
    const outcome = makeCall(resolve, allowed, clock)({ url, ...message });
    await eventually('it is under way', async () => isUnderWay());
    await clock.advance(10_000);
    return outcome;
  };
  const late = 'no whole answer within 10 s';
  const unnamed = await given(byNames, 'https://silent.example.com/', () => asked.includes('silent.example.com'));
  const unanswered = await given(makeResolve(), silent.url, () => silent.got.length > 0);
  assert.equal(unnamed, { isUnsent: true, error: late, durationMs: 10_000 });
  assert.equal(unanswered, { error: late, durationMs: 10_000 });
  const { status, error } = await given(makeResolve(), trickling.url, () => trickling.got.length > 0);
  assert.is(error, late);
  assert.ok(status === 200 || status === undefined);
});

test('a connection serves the same name again, and no other', async () => {
  const call = makeCall(toReceiver, [], systemClock);
  const to = (host: string) => call({ url: `https://${host}:${receiver.port}/`, ...message });
  // It is kept for some seconds, which a busy machine may miss.
  await eventually('it serves again', async () => {
    const before = receiver.connections();
    for (let i = 0; i < 2; i++) assert.is((await to('hooks.example.com')).status, 200);
    return receiver.connections() - before < 2;
  });
  assert.match((await to('other.example.com')).error!, /other\.example\.com/);
});

test('a kept connection that the receiver has closed is no failure of the receiver', async () => {
  const known = new Set<unknown>();
  let closed = 0;
  const closing = await startReceiver(certificate, (_, response) => {
    const { socket } = response;
    if (!known.has(socket)) return void (known.add(socket), response.end());
    // As if it had closed the connection a moment before.
    closed += 1;
    socket!.destroy();
  });
  const call = callInside(closing);
  let calls = 0;
  for (; closed < 2; calls += 1) assert.is((await call({ url: closing.url, ...message })).status, 200);
  assert.is(closing.got.length, calls + closed);
  await closing.stop();
  const refused = await callInside(closing)({ url: closing.url, ...message });
  assert.match(refused.error!, 'ECONNREFUSED');
  assert.is(refused.isUnsent, true, 'nothing left');
});

test('a URL that was stored before a rule, or by another way, is checked again', async () => {
  const urls = [
    'https://127.0.0.1/',
    'http://hooks.example.com/',
    'https://a:b@hooks.example.com/',
    'https://localhost/',
  ];
  for (const url of urls)
    assert.match((await makeCall(toReceiver, [], systemClock)({ url, ...message })).error!, /^the URL must/, url);
});

test('a target inside is called for the team that it is allowed to, or for all by *, and neither for another nor on another port', async () => {
  connections = 0;
  const refused = 'the URL must have the name of a host, not an address';
  const tries = async (team: string, url = receiver.url) => {
    const call = makeCall(makeResolve(), [{ team, target: receiver.target }], systemClock);
    const { status, error } = await call({ ...message, url });
    return status ?? error;
  };
  assert.equal([await tries('team_a'), await tries('*'), await tries('team_b')], [200, 200, refused]);
  assert.equal([await tries('*', `https://127.0.0.1:${insidePort}/`), connections], [refused, 0]);
});

test('no redirect is followed, and no proxy of the environment is asked', async () => {
  const other = await startReceiver(certificate, (_, response) => {
    response.writeHead(307, { location: receiver.url }).end();
  });
  const before = receiver.got.length;
  assert.is((await callInside(other, receiver)({ url: other.url, ...message })).status, 307);
  assert.is(receiver.got.length, before);

  connections = 0;
  const proxy = `http://127.0.0.1:${insidePort}`;
  Object.assign(process.env, { HTTPS_PROXY: proxy, https_proxy: proxy, NODE_USE_ENV_PROXY: '1' });
  const url = `https://hooks.example.com:${receiver.port}/in`;
  const { status } = await makeCall(toReceiver, [], systemClock)({ url, ...message });
  for (const name of ['HTTPS_PROXY', 'https_proxy', 'NODE_USE_ENV_PROXY']) delete process.env[name];
  assert.equal([status, connections], [200, 0]);
});

test('an answer is cut at 64 KB, and its first 1 KB is kept, or 200 bytes of one inside, as a text that Postgres takes', async () => {
  let sent = 0;
  const endless = await startReceiver(certificate, (_, response) => {
    const more = () => {
      while (!response.destroyed && response.write('x'.repeat(16_384))) sent += 16_384;
    };
    response.on('drain', more).on('error', () => {});
    more();
  });
  for (const [call, url, kept] of [
    [callInside(endless), endless.url, 200],
    [makeCall(toReceiver, [], systemClock), `https://hooks.example.com:${endless.port}/`, 1_024],
  ] as const) {
    const { status, answer, error } = await call({ url, ...message });
    assert.equal([status, answer, error], [200, 'x'.repeat(kept), undefined]);
  }
  // What the sockets' buffers took, and no more.
  assert.ok(sent < 20_000_000, String(sent));
  const odd = await startReceiver(certificate, (_, response) => void response.end(Buffer.from([0, 255, 65])));
  assert.is((await callInside(odd)({ url: odd.url, ...message })).answer, '\ufffd\ufffdA');
});
