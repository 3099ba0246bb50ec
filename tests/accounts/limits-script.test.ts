import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { compareLimits, shown } from './compare-limits.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { setMicros, SHARD } from './test-shard.ts';

// Limits in the verify script, on a real Redis, against the model of limits.ts.

const { client } = (await connectTestRedis()).node(SHARD);
const scripts = await loadScripts(client);

test('the script lets through what the model lets through, and tells what is left, of all windows at any instant', async () => {
  assert.is(await compareLimits(client, { sequences: 80, seed: 1 }), undefined);
});

const clock = (micros: bigint) => setMicros(client, micros);
const noon = 1_900_000_800_000_000n;

test('calls of one script at one instant count one after the other, and a repetition among them counts once', async () => {
  const one = recordOfProduct(client, scripts);
  const limits: Limit[] = [{ name: 'hourly', unit: 'credits', limit: '0.000010', per: 'hour' }];
  await one.setLimits(limits, limits);
  await clock(noon);
  const calls = [4, 4, 4, 2].map((micros) => ({ micros }));
  const once = { micros: 3, once: 'x' };
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
  assert.equal(shown(again!), shown(first!));
  assert.equal([first!.status, first!.states[0]!.remaining], ['VALID', '0.000007']);
  await one.remove();
});

test('counters have a lifetime, a key without limits has none, and limits that are left out leave', async () => {
  const one = recordOfProduct(client, scripts);
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
