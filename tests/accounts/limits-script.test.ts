import type { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { compareLimits, told } from './compare-limits.ts';
import { limitedKey, loadVerify } from './limits-product.ts';
import { setMicros, SHARD } from './test-shard.ts';

// Limits in the verify script, on a real Redis, against the model of limits.ts.

const SEQUENCES = 80;

let redis: ShardedRedis;
let client: Redis;
let sha: string;
test.before(async () => {
  redis = await connectTestRedis();
  ({ client } = redis.node(SHARD));
  sha = await loadVerify(client);
});

test('the script lets through what the model lets through, and tells what is left, of all windows at any instant', async () => {
  assert.is((await compareLimits(client, { sequences: SEQUENCES, seed: 1 })).failure, undefined);
});

const clock = (micros: bigint) => setMicros(client, micros);
const noon = 1_900_000_800_000_000n;

test('two calls a millisecond before and after a turn are counted in two windows, in zones of +05:45 and -03:30 too', async () => {
  for (const [timezone, turn] of [
    ['Asia/Kathmandu', '2027-06-01T18:15:00Z'],
    ['America/St_Johns', '2027-01-02T03:30:00Z'],
    ['Europe/Berlin', '2027-03-27T23:00:00Z'],
  ] as const) {
    const one = limitedKey(client, sha);
    await one.set([{ name: 'daily', unit: 'requests', limit: 1, per: 'day', timezone }], []);
    const at = Temporal.Instant.from(turn).epochNanoseconds / 1_000n;
    const statuses = [];
    for (const micros of [at - 2_000n, at - 1n, at, at + 1_000n]) {
      await clock(micros);
      statuses.push((await one.verify({ costMicros: 0 }))[0]!.status);
    }
    assert.equal(statuses, ['VALID', 'RATE_LIMITED', 'VALID', 'RATE_LIMITED'], timezone);
    await one.remove();
  }
});

test('a window that has turned stays turned when the clock is set back', async () => {
  const one = limitedKey(client, sha);
  await one.set([{ name: 'daily', unit: 'requests', limit: 2, per: 'day' }], []);
  const midnight = Temporal.Instant.from('2027-06-02T00:00:00Z').epochNanoseconds / 1_000n;
  const remaining = [];
  for (const micros of [midnight - 1n, midnight, midnight - 5_000_000n, midnight + 1n]) {
    await clock(micros);
    // A process that knows nothing of the key computes its window anew.
    await one.set([{ name: 'daily', unit: 'requests', limit: 2, per: 'day' }], []);
    remaining.push((await one.verify({ costMicros: 0 }))[0]!);
  }
  assert.equal(
    remaining.map(({ status }) => status),
    ['VALID', 'VALID', 'VALID', 'RATE_LIMITED'],
  );
  await one.remove();
});

test('a limit of an hour gives nothing for the part of its unit in which a call came', async () => {
  const one = limitedKey(client, sha);
  // 3,600,000 credits an hour: 100 of their millionths in 100 µs.
  await one.set([{ name: 'hourly', unit: 'credits', limit: '3600000', per: 'hour' }], []);
  await clock(noon + 1n);
  await one.verify({ costMicros: 3_600_000e6 });
  await clock(noon + 100n);
  assert.is((await one.verify({ costMicros: 1 }))[0]!.status, 'USAGE_LIMITED');
  await clock(noon + 200n);
  assert.is((await one.verify({ costMicros: 100_000 }))[0]!.status, 'VALID');
  await one.remove();
});

test('calls of one script at one instant count one after the other, and a repetition among them counts once', async () => {
  const one = limitedKey(client, sha);
  const limits: Limit[] = [{ name: 'hourly', unit: 'credits', limit: '0.000010', per: 'hour' }];
  await one.set(limits, limits);
  await clock(noon);
  const calls = [4, 4, 4, 2].map((costMicros) => ({ costMicros }));
  const once = { costMicros: 3, once: 'x' };
  assert.equal(
    (await one.verify(...calls, once, once)).map(({ status, limitedBy, states }) => [
      status + limitedBy,
      ...states.map(({ remaining }) => remaining),
    ]),
    [
      ['VALID', '0.000006', '0.000006'],
      ['VALID', '0.000002', '0.000002'],
      ['USAGE_LIMITED1', '0.000002', '0.000002'],
      ['VALID', '0', '0'],
      ['USAGE_LIMITED1', '0', '0'],
      ['USAGE_LIMITED1', '0', '0'],
    ],
  );
  await clock(noon + 3_600_000_000n);
  const [first, again] = await one.verify(once, once);
  assert.equal(told(again!), told(first!));
  assert.equal([first!.status, first!.states[0]!.remaining], ['VALID', '0.000007']);
  await one.remove();
});

test('counters have a lifetime, a key without limits has none, and limits that are left out leave', async () => {
  const one = limitedKey(client, sha);
  await clock(noon);
  await one.set([], []);
  await one.verify({ costMicros: 1 });
  assert.is(await client.exists(...one.counters), 0);
  const two = (['second', 'month'] as const).map((per): Limit => ({ name: per, unit: 'requests', limit: 5, per }));
  await one.set(two, two.slice(0, 1));
  await one.verify({ costMicros: 1 });
  const [ofMonth = 0, ofSecond = 0] = await Promise.all(one.counters.map((name) => client.pttl(name)));
  assert.ok(ofMonth > 3_600_000 && ofMonth < 33 * 86_400_000, `${ofMonth} ms`);
  assert.ok(ofSecond > 7_100_000 && ofSecond <= 7_200_000, `${ofSecond} ms`);
  const bytes = () => client.strlen(one.counters[0]!);
  const ofLimits = (count: number) => 40 * count + 25;
  assert.is(await bytes(), ofLimits(2));
  await one.set(two.slice(1), []);
  assert.is((await one.verify({ costMicros: 1 }))[0]!.states[0]!.remaining, 3);
  assert.is(await bytes(), ofLimits(1));
  await one.remove();
});
