import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { eventually, makeWorld, type Answer, type World } from '../../../tests/helpers/world.ts';

let world: World;
let customers: Customers;

const test = suite('rate limits in a verification');
test.before(async () => {
  world = await makeWorld(['verify']);
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(() => world?.stop());

test('the rate limit over several seconds never passes limit + limit × t', async () => {
  const limit = 20;
  const { key } = await customers.newKey({ rateLimitPerSecond: limit });
  const started = performance.now();
  const elapsed = () => (performance.now() - started) / 1000;
  let passed = 0;
  const bursts: { began: number; ended: number }[] = [];
  const burst = async (calls: number) => {
    const began = elapsed();
    for (const answer of await Promise.all(Array.from({ length: calls }, () => verify({ key })))) {
      if (answer.body.status === 'VALID') passed += 1;
      else assert.is(answer.body.rateLimit.remaining, 0);
    }
    bursts.push({ began, ended: elapsed() });
    assert.ok(passed <= limit + limit * elapsed(), `${passed} passed in ${elapsed()} s`);
  };
  await burst(3 * limit);
  assert.ok(passed >= limit, `only ${passed} at once`);
  while (elapsed() < 3.2) {
    await burst(limit);
    await sleep(15);
  }
  // Each burst takes all that came back since the one before, of at most one second. A busy machine may leave more between them.
  const missed = bursts.slice(1).reduce((sum, { ended }, i) => sum + Math.max(0, ended - bursts[i]!.began - 1), 0);
  const seconds = bursts.at(-1)!.began - bursts[0]!.ended - missed;
  assert.ok(passed >= limit + limit * seconds - 1, `only ${passed} passed, with ${seconds} s between bursts`);
});

test('a changed limit of the workspace holds for the next call, and a key may have its own', async () => {
  const workspace = (
    await must(201, world.call('post', '/api/v1/workspace', { name: 'limits', defaultRateLimitPerSecond: 1 }))
  ).body.workspace;
  const create = async (fields: object) =>
    (await must(201, world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id, ...fields }))).body
      .apiKey;
  const inherits = await create({});
  const own = await create({ rateLimitPerSecond: 100 });
  assert.is((await verify({ key: inherits.key })).body.rateLimit.remaining, 0);
  await eventually('it is used up', async () => (await statusesOf(inherits.key, 2)).includes('RATE_LIMITED'));
  assert.is((await verify({ key: own.key })).body.rateLimit.remaining, 99);
  await must(200, world.call('patch', `/api/v1/workspace/${workspace.id}`, { defaultRateLimitPerSecond: null }));
  assert.equal(await statusesOf(inherits.key, 3), ['VALID', 'VALID', 'VALID']);
});

test.run();

function verify(body: object, token: string | null = world.team.token, url = world.verify!.url): Promise<Answer> {
  return customers.verify(body, { token, url });
}

async function statusesOf(key: string, calls: number): Promise<string[]> {
  const statuses = [];
  for (let i = 0; i < calls; i++) statuses.push((await verify({ key })).body.status as string);
  return statuses;
}
