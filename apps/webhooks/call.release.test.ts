import { readFileSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { eventually } from '../../tests/helpers/eventually.ts';
import { makeCall } from './call.ts';
import { startNameServer } from './helpers/name-server.ts';
import { makeReceiverCertificate, startReceiver } from './helpers/receiver.ts';
import { makeResolve } from './resolve.ts';

const message = { teamId: 'team_a', headers: { 'content-type': 'application/json' }, body: '{"a":1}' };
let answers: Record<string, string[] | 'silence'> = {};

const certificate = makeReceiverCertificate();
setDefaultCACertificates([...getCACertificates('default'), readFileSync(certificate.certificate, 'utf8')]);
const names = await startNameServer((name) => answers[name] ?? []);
test.after(() => names.stop());

test('a name without an address, and one whose servers never answer, end the call in its time', async () => {
  answers = { 'silent.example.com': 'silence' };
  const resolve = makeResolve([names.address]);
  const none = await makeCall(resolve, [], systemClock)({ url: 'https://none.example.com/', ...message });
  assert.is(none.error, 'the name none.example.com has no address');
  const call = makeCall(resolve, [], systemClock, 1_000);
  const { error, durationMs } = await call({ url: 'https://silent.example.com/', ...message });
  assert.is(error, 'no whole answer within 1 s');
  assert.ok(durationMs >= 990);
});

test('a connection serves again where the check gives the same addresses, and for no other check or name', async () => {
  const own = await startReceiver(certificate);
  let addresses: string[] = [];
  const call = makeCall(async () => addresses.map((address) => ({ address, family: 4 })), [], systemClock);
  const name = (host: string) => ({ url: `https://${host}:${own.port}/`, ...message });
  const newConnections = async (...checked: string[]) => {
    const before = own.connections();
    addresses = checked;
    assert.is((await call(name('hooks.example.com'))).status, 200);
    return own.connections() - before;
  };
  // It is kept for some seconds, which a busy machine may miss.
  await eventually('the same in another order serve again', async () => {
    await newConnections('127.0.0.1', '127.0.0.3');
    return (await newConnections('127.0.0.3', '127.0.0.1')) === 0;
  });
  assert.is(await newConnections('127.0.0.1'), 1, 'other addresses');
  await eventually('the first one serves again', async () => {
    await newConnections('127.0.0.1', '127.0.0.3');
    assert.match((await call(name('other.example.com'))).error!, /other\.example\.com/);
    return (await newConnections('127.0.0.1', '127.0.0.3')) === 0;
  });
  await own.stop();
});

test('an answer that does not come, or never ends, is given up', async () => {
  const silent = await startReceiver(certificate, () => {});
  const trickling = await startReceiver(certificate, (_, response) => void response.write('so far'));
  const call = makeCall(
    makeResolve(),
    [
      { team: '*', target: silent.target },
      { team: '*', target: trickling.target },
    ],
    systemClock,
    1_000,
  );
  const none = await call({ url: silent.url, ...message });
  assert.equal([none.status, none.error], [undefined, 'no whole answer within 1 s']);
  const part = await eventually('a part of it comes in that time', async () => {
    const outcome = await call({ url: trickling.url, ...message });
    return outcome.status === undefined ? undefined : outcome;
  });
  assert.equal([part.status, part.error], [200, 'no whole answer within 1 s']);
  await Promise.all([silent.stop(), trickling.stop()]);
});
