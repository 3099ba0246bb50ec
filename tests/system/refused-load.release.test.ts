import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { makeKeyText, randomShard } from '../../shared/values/key-text.ts';
import { VERIFY_BATCH_PATH } from '../../shared/verification/operation.ts';
import { makeCustomers, must } from '../helpers/customers.ts';
import { metric } from '../helpers/metric.ts';
import { eventually, makeWorld } from '../helpers/world.ts';

// Whoever has a customer's URL can have calls refused, with any key and route. `make refusals CALLS=1000000` sends more of them.
const calls = Number(process.env.REFUSED_CALLS ?? 12_000);

const PER_BATCH = 100;
const AT_ONCE = 4;
// What one process tells in a minute: two counts of secrets that are no key, twenty routes of a key and the rest of them.
const COUNTS_OF_NOBODY = 2;
const COUNTS_OF_KEY = 21;

const world = await makeWorld(['verify', 'consumer']);
const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
// So that each row stays as it was inserted.
for (const table of ['refusals', 'recent_refusals'])
  await books.client.command({ query: `system stop merges ${table}` });
test.after(() => books?.close());

test(`${calls} calls with unknown keys and routes leave a few rows a minute, are all counted`, async () => {
  const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  const { id, key } = await makeCustomers(world, workspaceId).newKey({ enabled: false });
  const kinds = [
    (i: number) => `no key ${i}`,
    () => makeKeyText('key', randomShard()),
    // A key of a customer, and whatever routes its end clients choose.
    () => key,
  ];
  await send(calls, (i) => ({ key: kinds[i % 3]!(i), route: `GET /${i}` }));

  await eventually('all are counted', async () => (await read('sum(calls)', 'refusals final')) >= calls);
  assert.is(await read('sum(calls)', 'refusals final'), calls);
  assert.is(await metric(world.verify!.url, 'keytally_dropped_outcomes_total'), 0);
  const minutes = await read('uniqExact(minute)', 'refusals');
  const ofNobody = await read('count()', "refusals final where workspace_id = ''");
  const ofKey = await read('count()', `refusals final where key_id = '${id}'`);
  console.log(`${calls} calls, ${minutes} minutes: ${ofNobody} rows of unknown keys, ${ofKey} of a key`);
  assert.ok(ofNobody <= COUNTS_OF_NOBODY * minutes, `${ofNobody} rows of unknown keys`);
  assert.ok(ofKey <= COUNTS_OF_KEY * minutes, `${ofKey} rows of a key`);
});

async function send(count: number, callOf: (i: number) => { key: string; route: string }): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const first = next;
      next += PER_BATCH;
      const verifications = Array.from({ length: Math.min(PER_BATCH, count - first) }, (_, i) => callOf(first + i));
      const { body } = await must(200, world.call('post', world.verify!.url + VERIFY_BATCH_PATH, { verifications }));
      for (const one of body.results) assert.is.not(one.status, 'VALID');
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function read(what: string, of: string): Promise<number> {
  const answer = await books.client.query({ query: `select ${what} as value from ${of}`, format: 'JSONEachRow' });
  return Number((await answer.json<{ value: string }>())[0]!.value);
}
