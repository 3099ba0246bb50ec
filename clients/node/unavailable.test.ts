// What a guarded API does while verify is slow, answers nothing, or is down, as docs/protect-node.md says it.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { makeCustomers, type Customers } from '../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { frameworks, type App } from './helpers/frameworks.ts';
import { failure } from './helpers/failure.ts';
import { makeProxy, type Proxy } from './helpers/proxy.ts';
import { keytally } from './index.ts';

let world: World;
let customers: Customers;
let proxy: Proxy;
let app: App | undefined;
const errors: string[] = [];

const test = suite('a guard while verify is slow or down');
test.before(async () => {
  world = await makeWorld(['verify']);
  proxy = await makeProxy(world.verify!.url);
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(async () => {
  proxy?.stop();
  await world?.stop();
});
test.before.each(() => {
  errors.length = 0;
  proxy.next();
});
test.after.each(async () => {
  proxy.release();
  await app?.stop();
});

test('while verify is slow, requests wait, and pass: each is debited once', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const get = await protect({ url: proxy.url, verifyTimeoutMs: 60_000 });
  proxy.fate = 'hold';
  let answered = 0;
  const answers = Array.from({ length: 64 }, () => get(key).finally(() => (answered += 1)));
  await eventually('verify was asked', async () => proxy.seen.length > 0);
  assert.is(answered, 0);
  proxy.release();
  assert.equal([...new Set((await Promise.all(answers)).map(({ status }) => status))], [200]);
  assert.equal([(await customers.billing(meter)).usedCredits, errors], ['64', []]);
});

test('a verification that takes longer than half of its time is sent again, with the same key, and debited once', async () => {
  const { key, meter } = await customers.meteredKey('10');
  const get = await protect({ url: proxy.url, verifyTimeoutMs: 40_000 });
  proxy.next('hang');
  assert.is((await get(key)).status, 200);
  assert.is(proxy.seen.length, 2);
  assert.is(new Set(proxy.seen.map(({ headers }) => headers['idempotency-key'])).size, 1);
  assert.is((await customers.billing(meter)).usedCredits, '1');
});

test('while verify answers nothing, or is down, requests are refused with 503 in the time that is set, and onError is told', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  proxy.fate = 'hang';
  const [port = 0] = await freePorts(1);
  const down = `http://127.0.0.1:${port}`;
  const inTime = 'keytally did not answer in time';
  for (const [url, said] of [
    [proxy.url, inTime],
    [down, `keytally cannot be reached at ${down}`],
  ] as const) {
    const get = await protect({ url, verifyTimeoutMs: 2_000 });
    const began = performance.now();
    const answers = await Promise.all(Array.from({ length: 64 }, () => get(key)));
    // The default of all other calls is 30 s.
    assert.ok(performance.now() - began < 20_000, `${performance.now() - began} ms`);
    assert.equal([...new Set(answers.map(({ status }) => status))], [503]);
    assert.ok(answers.every(({ retryAfter }) => retryAfter > 0));
    const causes = errors.splice(0).map((error) => error.replace(/^keytally guard, request \S+: /, ''));
    assert.is(causes.length, 64);
    assert.ok(causes.includes(said), causes.join('\n'));
    // On a busy machine even a refused connection may take longer than what is left for a last attempt.
    assert.ok(
      causes.every((cause) => cause === said || cause === inTime),
      causes.join('\n'),
    );
    await app!.stop();
  }
  // What was refused may have been debited, but never twice, although the client asked several times.
  assert.ok(Number((await customers.billing(meter)).usedCredits) <= 64);
});

test('without a time of its own, a verification is given up after a second', async () => {
  proxy.fate = 'hang';
  const began = performance.now();
  const error = await failure(keytally({ url: proxy.url, token: world.team.token }).verify({ key: 'x' }));
  const tookMs = performance.now() - began;
  assert.equal([error.isAway, error.message], [true, 'keytally did not answer in time']);
  // Its last attempt ends early enough that no pause fits in behind it. The default of all other calls is 30 s.
  assert.ok(tookMs > 490 && tookMs < 15_000, `${tookMs} ms`);
});

test.run();

/** Starts an API whose requests cost one credit, and gives the function that asks it. */
async function protect(options: { url: string; verifyTimeoutMs: number }) {
  const client = keytally({ ...options, token: world.team.token });
  const onError = (error: Error) => void errors.push(error.message);
  app = await frameworks.Koa!(client, { costOf: () => '1', onError }, (identity) => identity);
  const { url } = app;
  return async (key: string) => {
    const answer = await fetch(url, { headers: { 'X-API-Key': key } });
    await answer.arrayBuffer();
    return { status: answer.status, retryAfter: Number(answer.headers.get('retry-after')) };
  };
}
