import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey, billingRefsAfter } from '../../../shared/books/billing-refs.ts';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import { dayOf, eventColumns, eventRow } from '../../../shared/events/event.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../../../tests/helpers/customers.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';
import { reconcileAll, reconcileLost } from './reconcile.ts';

// Reconciling: a record is exact, or differs by an amount and between two events; and it never differs only because events
// are on their way.

const test = suite('reconcile');
const log = makeLogger('test', 'silent');
const never = new AbortController().signal;
let world: World;
let books: Books;
let redis: ShardedRedis;
let customers: Customers;

test.before(async () => {
  world = await makeWorld(['verify']);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  redis = connectRedis(world.env.REDIS_URL!, log);
  await redis.connected(5_000);
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'proved' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(async () => {
  await Promise.all([books?.close(), redis?.close()]);
  await world?.stop();
});

test('events on their way are no difference, and books that have all events are exact, also during traffic', async () => {
  const one = await customers.meteredKey('1000000');
  for (let i = 0; i < 5; i++) await spend(one, '1');
  assert.is((await proof(one)).status, 'ON_ITS_WAY');
  const hasty = await world.start('api', { REQUEST_DEADLINE_MS: '4500' });
  assert.is((await proof(one, hasty.url)).status, 'ON_ITS_WAY', 'with another deadline too');
  await hasty.stop();
  const consumer = await world.start('consumer');
  await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
  let going = true;
  const traffic = (async () => {
    while (going) await spend(one, '0.25');
  })();
  for (let i = 0; i < 10; i++) assert.is((await proof(one)).status, 'EXACT', 'in the middle of traffic');
  going = false;
  await traffic;
  assert.is((await tool()).code, 0);
  await consumer.stop();
});

test('missing events are reported with their amount and the events around them, an invented one with its amount', async () => {
  const consumer = await world.start('consumer');
  const [lacking, invented] = [await customers.meteredKey('1000'), await customers.meteredKey('1000')];
  for (const usage of ['1', '2.5', '4', '8']) await spend(lacking, usage);
  await spend(invented, '1');
  const [{ id }, other] = [await customers.billing(lacking.meter), await customers.billing(invented.meter)];
  await eventually('all is booked', async () => (await customers.usage(lacking.meter)) === '15.5');
  await books.client.command({
    query:
      'alter table usage_events delete where billing_id = {id:String} and seq in (2, 3) settings mutations_sync = 2',
    query_params: { id },
  });
  await books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: [eventRow(testEvent({ billingId: other.id, costMicros: 3_000_000, epoch: 0, usedMicros: 3_000_000 }))],
    format: 'JSONCompactEachRow',
  });
  const found = await proof(lacking);
  assert.equal([found.status, found.difference, found.losses], ['MISSING', '6.5', []], JSON.stringify(found));
  const [missing] = found.gaps;
  assert.equal([missing.events, missing.credits, missing.after.number, missing.before.number], [2, '6.5', 1, 4]);
  assert.match(missing.after.eventId, /^evt_/);

  const metrics = makeMetrics('test');
  const stores = { sql: world.sql, redis, books };
  await reconcileAll(stores, metrics, log, never);
  assert.match(await metrics.registry.metrics(), /^keytally_reconcile_differences\{.*\} [12]$/m);
  const { code, stdout } = await tool();
  assert.is(code, 1);
  assert.match(stdout, new RegExp(`${id} +MISSING +6\\.5`));
  await consumer.stop();
});

test('usage that only a verify process remembers is reported once, with its record and amount', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  await eventually('it is booked', async () => (await customers.usage(one.meter)) === '1');
  const { id } = await customers.billing(one.meter);
  const [row] = await (
    await books.client.query({
      query: 'select epoch, used_micros from usage_events where billing_id = {id:String}',
      query_params: { id },
      format: 'JSONEachRow',
    })
  ).json<{ epoch: number }>();
  // The consumer's own jobs would report it first.
  const jobs = await holdJobs(['losses', 'reconcile']);
  // As if the shard had been reopened since, and had lost what came after the first event.
  const lost = { kind: 'witness' as const, keyId: '', billingId: id, costMicros: 0, epoch: row!.epoch - 1 };
  await books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: [eventRow(testEvent({ ...lost, sequence: 3, usedMicros: 7_500_000 }))],
    format: 'JSONCompactEachRow',
  });
  const metrics = makeMetrics('test');
  for (let twice = 0; twice < 2; twice++) await reconcileLost({ sql: world.sql, redis, books }, metrics, log, never);
  const text = await metrics.registry.metrics();
  assert.match(text, /^keytally_lost_events_total\{.*\} 3$/m);
  assert.match(text, /^keytally_lost_microcredits_total\{.*\} 7500000$/m);
  await jobs.release();
  const found = await proof(one);
  assert.equal([found.status, found.losses.length, found.losses[0].credits], ['EXACT', 1, '7.5']);
  await consumer.stop();
});

test('usage that bills another sum than the events is a difference, and is summed up again', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  await spend(one, '2');
  await eventually('it is booked', async () => (await customers.usage(one.meter)) === '2');
  const { id } = await customers.billing(one.meter);
  const day = dayOf(Date.now() - 5 * 86_400_000);
  // As after a restore that laid one state of the books over another: a day that is over bills what no event has.
  await books.client.insert({
    table: 'usage_daily',
    values: [{ billing_id: id, day, usage_name: 'tokens', cost_micros: '50000000', events: '50', all_events: '50' }],
    format: 'JSONEachRow',
  });
  assert.is(await customers.usage(one.meter), '50', 'the row of the first day');
  const found = await proof(one);
  assert.equal(
    [found.status, found.difference, found.usedCredits, found.billedCredits],
    ['TOO_MUCH', '-50', '2', '52'],
    JSON.stringify(found),
  );
  const { code, stdout } = await tool();
  assert.is(code, 1);
  assert.match(stdout, new RegExp(`${id} +TOO_MUCH +-50`));
  await reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, never);
  assert.equal([await customers.usage(one.meter), (await proof(one)).status], ['2', 'EXACT']);
  await consumer.stop();
});

test('events that Redis should have counted and has not are too much, not events on their way', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
  const { id } = await customers.billing(one.meter);
  const [row] = await (
    await books.client.query({
      query: 'select max(epoch) as epoch from usage_events where billing_id = {id:String}',
      query_params: { id },
      format: 'JSONEachRow',
    })
  ).json<{ epoch: number }>();
  // As if Redis had been put back to an earlier state than the books.
  const later = { billingId: id, timeMs: Date.now() - 1_000, epoch: row!.epoch, sequence: 2 };
  await books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: [eventRow(testEvent({ ...later, costMicros: 5_000_000, usedMicros: 6_000_000 }))],
    format: 'JSONCompactEachRow',
  });
  const found = await proof(one);
  assert.equal([found.status, found.difference], ['TOO_MUCH', '-5'], JSON.stringify(found));
  await consumer.stop();
});

test('a held record whose note was lost is noted again, and the operator is told of it', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
  const [ref] = await billingRefsAfter(world.sql, { ids: [(await customers.billing(one.meter)).id] }, '', 1);
  const node = redis.node(ref!.shard);
  await node.client.hset(billingKey(ref!), 'u', 'held');
  const { code, stdout } = await tool();
  assert.is(code, 1, 'others differ');
  assert.match(stdout, new RegExp(`${ref!.id} +can not be read`));
  const notes = async () =>
    Number((await world.sql`select last_value - (not is_called)::int as made from unsettled_records_seq`)[0]!.made);
  const before = await notes();
  await reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, never);
  assert.ok((await notes()) > before);
  await consumer.stop();
});

async function spend({ key }: TestKey, usage: string): Promise<void> {
  const { body } = await must(200, customers.verify({ key, billing: { usage } }));
  assert.is(body.status, 'VALID');
}

async function proof({ meter }: TestKey, url = '') {
  const { id } = await customers.billing(meter);
  const path = `${url}/api/v1/customer-billing/${id}/reconciliation`;
  return (await must(200, world.call('get', path))).body.reconciliation;
}

/** Keeps jobs of consumers from running: takes their locks, once a run that is under way has ended. */
async function holdJobs(names: string[]): Promise<{ release(): Promise<void> }> {
  const connection = await world.sql.reserve();
  for (const name of names) await connection`select pg_advisory_lock(hashtext('keytally jobs'), hashtext(${name}))`;
  return {
    async release() {
      await connection`select pg_advisory_unlock_all()`;
      connection.release();
    },
  };
}

/** Runs the operator's command. */
function tool(): Promise<{ code: number; stdout: string }> {
  const script = join(import.meta.dirname, '../../api/commands/reconcile.ts');
  return new Promise((resolve) => {
    execFile(process.execPath, [script], { env: { ...process.env, ...world.env } }, (error, stdout) => {
      resolve({ code: error ? Number(error.code) : 0, stdout });
    });
  });
}

test.run();
