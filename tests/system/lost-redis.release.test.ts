import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';
import { refusingBooks } from '../helpers/refusing-books.ts';
import { eventually } from '../helpers/world.ts';

// What an emptied Redis is filled with while the books can't tell all. The simulator has what becomes of credits.

let own: RebuildWorld;

test.before(async () => void (own = await makeRebuildWorld('lost', { BUS: 'redis' })));
test.before.each(() => own.allOpen());

test('an emptied shard opens without a record that the books do not tell of, which gets 503 until its balance is there', async () => {
  const [held, other] = [await own.customers.meteredKey('100'), await own.customers.meteredKey('100')];
  for (const one of [held, other]) await own.spend(one, '2');
  await own.world.start('consumer');
  await own.world.booked();
  const { id } = await own.customers.billing(held.meter);
  const refusing = await refusingBooks(own.world.env.CLICKHOUSE_URL!);
  await own.world.api.stop();
  const PORT = new URL(own.world.api.url).port;
  const api = await own.world.start('api', { CLICKHOUSE_URL: refusing.url, PORT });

  // While they tell nothing at all, it stays closed.
  refusing.refuse('billing_id');
  await own.redis.admin.flushall();
  await eventually('the books were asked', async () => refusing.count() >= 4);
  assert.is((await own.customers.verify({ key: other.key })).status, 503);
  refusing.refuse(id);
  await own.allOpen();
  assert.is((await own.spend(other, '1')).billing.usedCredits, '3');
  assert.is((await own.customers.verify({ key: held.key })).body.error.code, 50305);
  refusing.refuse(undefined);
  await own.untilValid(held);
  assert.is((await own.spend(held, '1')).billing.usedCredits, '3');
  await api.stop();
  refusing.close();
});
