import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import { windowOf, type SlidingWindow } from '../../shared/stores/limits.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { column, connectTestRedis } from '../helpers/world.ts';
import { shown } from './compare-limits.ts';
import { ModelLimit } from './limits.ts';
import { crossedBy, loadScripts, recordOfProduct } from './product-scripts.ts';
import { setMicros, SHARD } from './test-shard.ts';

// Limits in the scripts of the product: what the model of limits.ts does not know.

const { client } = (await connectTestRedis()).node(SHARD);
await loadScripts(client);

const clock = (micros: bigint) => setMicros(client, micros);
const noon = 1_900_000_800_000_000n;

test('what has fallen is exact to the micro-credit, of every limit and of the longest windows of each kind, in a Redis that counts in doubles', async () => {
  const limitOf = fc.record({
    unit: fc.constant('credits' as const),
    limit: fc.integer({ min: 1, max: 9e15 }).map((micros) => formatCredits(micros)),
    per: fc.constantFrom('second', 'minute', 'hour', '59 seconds', '59 minutes', '23 hours'),
  });
  const compared = fc.asyncProperty(limitOf, fc.bigInt(0n, 1_000_003n), async (limit, share) => {
    const one = recordOfProduct(client);
    const model = new ModelLimit({ name: 'one', ...limit });
    await one.setLimits([model.setting], []);
    await clock(noon);
    const [taken] = await one.verify({ micros: Number(model.limit()) });
    assert.is(taken!.status, 'VALID');
    model.take(model.limit(), noon);
    const now = noon + (BigInt((windowOf(limit.per) as SlidingWindow).ms) * 1_000n * share) / 1_000_003n;
    await clock(now);
    assert.is((await one.verify(0))[0]!.states[0]!.remaining, model.remaining(now));
    await one.remove();
  });
  await fc.assert(compared, { numRuns: 100 });
});

test('a repetition among the calls of one script counts once', async () => {
  const one = recordOfProduct(client);
  const limits: Limit[] = [{ name: 'hourly', unit: 'credits', limit: '0.000010', per: 'hour' }];
  await one.setLimits(limits, limits);
  await clock(noon);
  const once = { micros: 3, once: 'x' };
  const [first, again] = await one.verify(once, once);
  assert.equal(shown(again!), shown(first!));
  assert.equal([first!.status, first!.states[0]!.remaining], ['VALID', '0.000007']);
  await one.remove();
});

test('what a hold gives back at its end is counted once, whatever a script that comes upon it is asked first', async () => {
  const limits: Limit[] = [{ name: 'daily', unit: 'credits', limit: '1', per: 'day' }];
  const once = { micros: 10, once: 'x' };
  for (const first of [[], [once], [once, once], [2_000_000], [0]]) {
    const one = recordOfProduct(client);
    await one.setLimits(limits, limits);
    await clock(noon);
    await one.verify(500);
    await one.verify(once);
    await one.verify({ name: 'h', micros: 100, forMs: 1_000, onExpiry: 'release' });
    await clock(noon + 2_000_000n);
    await one.verify(...first, 7);
    const [{ states } = { states: [] }] = await one.verify(0);
    assert.equal(column(states, 'remaining'), ['0.999483', '0.999483']);
    await one.remove();
  }
});

test('counters have a lifetime, a key without limits has none, and limits that are left out leave', async () => {
  const one = recordOfProduct(client);
  await clock(noon);
  await one.setLimits([], []);
  await one.verify({ micros: 1 });
  assert.is(await client.exists(...one.counters), 0);
  const two = (['second', 'month'] as const).map((per): Limit => ({ name: per, unit: 'requests', limit: 5, per }));
  await one.setLimits(two, two.slice(0, 1));
  await one.verify({ micros: 1 });
  const [ofMonth = 0, ofSecond = 0] = await Promise.all(one.counters.map((name) => client.pttl(name)));
  assert.ok(ofMonth > 3_600_000 && ofMonth < 33 * 86_400_000, `${ofMonth} ms`);
  assert.ok(ofSecond > 7_100_000 && ofSecond <= 7_200_000, `${ofSecond} ms`);
  const bytes = () => client.strlen(one.counters[0]!);
  const ofLimits = (count: number) => 40 * count + 25;
  assert.is(await bytes(), ofLimits(2));
  await one.setLimits(two.slice(1), []);
  assert.is((await one.verify({ micros: 1 }))[0]!.states[0]!.remaining, 3);
  assert.is(await bytes(), ofLimits(1));
  await one.remove();
});

test('a capture of more than its hold counts that in limits whose counters have fallen to nothing and are gone', async () => {
  const one = recordOfProduct(client);
  const limits = ['first', 'second'].map((name): Limit => ({ name, unit: 'credits', limit: '10', per: 'hour' }));
  await one.setLimits(limits, []);
  await clock(noon);
  await one.verify({ name: 'first', micros: 1_000_000, forMs: 80_000_000, onExpiry: 'release' });
  await clock(noon + 7_200_000_000n);
  await client.del(...one.counters);
  assert.is(await one.settleHold('capture', 'first', 5_000_000), 'DONE');
  const [{ states } = { states: [] }] = await one.verify(0);
  assert.equal(column(states, 'remaining'), ['6', '6']);
  assert.ok((await client.pttl(one.counters[0]!)) > 3_600_000);
  await one.remove();
});

test('an alert on a limit has one name in its window, whichever call or capture comes over its line again', async () => {
  const one = recordOfProduct(client);
  const limits: Limit[] = [
    { name: 'x', unit: 'requests', limit: 100, per: 'day' },
    { name: 'daily', unit: 'credits', limit: '10', per: 'day' },
  ];
  const alerts = [
    { name: 'low', kind: 'available' as const, value: 0 },
    { name: 'most', kind: 'limit' as const, value: 80, limit: 'daily' },
  ];
  const hold = { forMs: 80_000_000, onExpiry: 'release' as const };
  const crossings = () =>
    one.lines.splice(0).flatMap((line) => crossedBy(line).map(({ name, armed }) => `${line.kind}: ${name} ${armed}`));
  const armedAt = (day: string) => `most ${Temporal.Instant.from(`${day}T00:00:00Z`).epochMilliseconds}.80`;
  await one.setLimits([], limits, alerts);
  await clock(noon);
  const today = armedAt(
    Temporal.Instant.fromEpochMilliseconds(Number(noon / 1_000n))
      .toString()
      .slice(0, 10),
  );
  await one.verify({ ...hold, name: 'first', micros: 7_999_999 }, { ...hold, name: 'second', micros: 1 }, 1);
  assert.equal(crossings(), [`hold: ${today}`]);
  assert.is(await one.settleHold('capture', 'first', 1_000_000), 'DONE');
  assert.equal(crossings(), []);
  assert.is(await one.settleHold('capture', 'second', 8_000_000), 'DONE');
  assert.equal(crossings(), [`capture: ${today}`]);
  await clock(noon + 86_400_000_000n);
  await one.verify(8_000_000);
  const [again = ''] = crossings();
  assert.match(again, /^verification: most \d+\.80$/);
  assert.is.not(again.split(': ')[1], today);
  await one.remove();
});
