import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { makeKeyText, randomShard } from '../../shared/values/key-text.ts';
import { VERIFY_BATCH_PATH } from '../../shared/verification/operation.ts';
import { makeCustomers, must } from '../helpers/customers.ts';
import { metric } from '../helpers/metric.ts';
import { eventually, makeWorld, type World } from '../helpers/world.ts';

// Whoever has a customer's URL can have calls refused, with any key and route. `make refusals CALLS=1000000` sends more of them.
const calls = Number(process.env.REFUSED_CALLS ?? 12_000);

const PER_BATCH = 100;
const AT_ONCE = 4;
const PARTS = 5;
// What one process tells in a minute: two counts of secrets that are no key, twenty routes of a key and the rest of them.
const COUNTS_OF_NOBODY = 2;
const COUNTS_OF_KEY = 21;
const KEPT_A_SECOND = 10;
// Where memory is measured, it may grow by less than 100 bytes for each call.
const MEASURED_FROM = 500_000;

let world: World;
let books: Books;

const test = suite('calls refused in masses');
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  // So that each row stays as it was inserted.
  for (const table of ['refusals', 'recent_refusals'])
    await books.client.command({ query: `system stop merges ${table}` });
});
test.after(async () => {
  await books?.close();
  await world?.stop();
});

test(`${calls} calls with unknown keys and routes leave a few rows a minute, are all counted, and verify does not grow`, async () => {
  const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  const { id, key } = await makeCustomers(world, workspaceId).newKey({ enabled: false });
  const kinds = [
    (i: number) => `no key ${i}`,
    () => makeKeyText('key', randomShard()),
    // A key of a customer, and whatever routes its end clients choose.
    () => key,
  ];
  const began = performance.now();
  const memories: number[] = [];
  for (let part = 0; part < PARTS; part++) {
    await send(calls / PARTS, (i) => ({ key: kinds[i % 3]!(i), route: `GET /${part}/${i}` }));
    memories.push(await metric(world.verify!.url, 'process_resident_memory_bytes'));
  }
  const took = (performance.now() - began) / 1_000;

  await eventually('all are counted', async () => (await read('sum(calls)', 'refusals final')) >= calls);
  assert.is(await read('sum(calls)', 'refusals final'), calls);
  assert.is(await metric(world.verify!.url, 'keytally_dropped_outcomes_total'), 0);
  const minutes = await read('uniqExact(minute)', 'refusals');
  const rows = {
    ofNobody: await read('count()', "refusals final where workspace_id = ''"),
    ofKey: await read('count()', `refusals final where key_id = '${id}'`),
    oneByOne: await read('count()', 'recent_refusals final'),
    inserted: (await read('count()', 'refusals')) + (await read('count()', 'recent_refusals')),
  };
  const each = Object.entries(rows).map(([name, count]) => `${name} ${(count / minutes).toFixed(0)}`);
  console.log(`${calls} calls in ${took.toFixed(0)} s, ${minutes} minutes; rows a minute: ${each.join(', ')}`);
  console.log(`resident memory of verify after each of ${PARTS} parts, in MB: ${memories.map(toMb).join(', ')}`);
  assert.ok(rows.ofNobody <= COUNTS_OF_NOBODY * minutes, `${rows.ofNobody} rows of unknown keys`);
  assert.ok(rows.ofKey <= COUNTS_OF_KEY * minutes, `${rows.ofKey} rows of a key`);
  assert.ok(rows.oneByOne <= KEPT_A_SECOND * (took + 2), `${rows.oneByOne} refusals one by one`);
  if (calls >= MEASURED_FROM) assert.ok(memories.at(-1)! - memories[0]! < 100 * calls, `${memories.join(', ')} bytes`);
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

const toMb = (bytes: number) => Math.round(bytes / 2 ** 20);

async function read(what: string, of: string): Promise<number> {
  const answer = await books.client.query({ query: `select ${what} as value from ${of}`, format: 'JSONEachRow' });
  return Number((await answer.json<{ value: string }>())[0]!.value);
}

test.run();
