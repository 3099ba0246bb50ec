import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectClickHouse } from './clickhouse.ts';
import { newId } from './ids.ts';
import { makeWorld } from './testing.ts';

const test = suite('clickhouse');

test('used credits of a thousand records are asked for at once', async () => {
  const world = await makeWorld();
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const ids = Array.from({ length: 1_000 }, () => newId('bill'));
  const row = { billing_id: ids[999], day: '2026-03-01', event_id: newId('evt'), cost_micros: 5 };
  for (let twice = 0; twice < 2; twice++) {
    await books.client.insert({ table: 'usage_events', values: [row], format: 'JSONEachRow' });
  }
  assert.equal([...(await books.usedCredits(ids))], [[ids[999], 5]]);
  await books.close();
  await world.stop();
});

test.run();
