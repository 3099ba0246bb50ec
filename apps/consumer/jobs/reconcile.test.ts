import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { billingKey, billingRefsAfter } from '../../../shared/books/billing-refs.ts';
import { countUnproved } from '../../../shared/books/reconciling/unproved-records.ts';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import { carryDecoded, type CarriedEvent } from '../../../shared/events/carried-event.ts';
import { dayOf, type UsageEvent } from '../../../shared/events/event.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { connectRedis, type ShardedRedis } from '../../../shared/stores/redis.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../../../tests/helpers/customers.ts';
import { testEvent, testLine } from '../../../tests/helpers/events.ts';
import { inLongForm } from '../../../tests/helpers/long-form.ts';
import { metric } from '../../../tests/helpers/metric.ts';
import { listenToAll } from '../../../tests/helpers/told-webhooks.ts';
import { eventually, makeWorld, PATIENT, type World } from '../../../tests/helpers/world.ts';
import { makeMarkChangedDays } from '../changed-days.ts';
import { makeFillOwners } from '../fill-owners.ts';
import { insertEvents } from '../insert-events.ts';
import { reconcileAll, reconcileLost } from './reconcile.ts';
import { rollUp } from './rollup.ts';

// Reconciling: a record is exact, or differs by an amount and between two events; and it never differs only because events
// are on their way.

const test = suite('reconcile');
const longTest = inLongForm(test);
const log = makeLogger('test', 'silent');
const never = new AbortController().signal;
let world: World;
let books: Books;
let redis: ShardedRedis;
let customers: Customers;
let jobs: { release(): Promise<void> } | undefined;
let workspaceId: string;

test.before(async () => {
  world = await makeWorld(['verify']);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  redis = connectRedis(world.env.REDIS_URL!, log, systemClock);
  await redis.connected(60_000);
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'proved' })).body;
  workspaceId = workspace.id;
  customers = makeCustomers(world, workspaceId);
  // What a test says of the books, the consumers' own hourly runs would find and set right before it.
  jobs = await holdJobs(['losses', 'reconcile']);
});
test.after(async () => {
  await jobs?.release();
  await Promise.all([books?.close(), redis?.close()]);
  await world?.stop();
});

test('events on their way are no difference, and books that have all events are exact, also during traffic', async () => {
  const one = await customers.meteredKey('1000000');
  for (let i = 0; i < 5; i++) await spend(one, '1');
  assert.is((await proof(one)).status, 'ON_ITS_WAY');
  const hasty = await world.start('api', { REQUEST_DEADLINE_MS: '8000' });
  const hastily = await eventually('it is answered before that deadline', async () => {
    const answer = await askProof(one, hasty.url);
    return answer.status === 503 ? undefined : answer;
  });
  assert.is(hastily.body.reconciliation?.status, 'ON_ITS_WAY', `with another deadline too: ${hastily.text}`);
  await hasty.stop();
  const consumer = await world.start('consumer');
  await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
  const patient = await world.start('api', PATIENT);
  let going = true;
  const traffic = (async () => {
    while (going) await spend(one, '0.25');
  })();
  for (let i = 0; i < 10; i++) assert.is((await proof(one, patient.url)).status, 'EXACT', 'in the middle of traffic');
  going = false;
  await traffic;
  await patient.stop();
  assert.is((await tool()).code, 0);
  await consumer.stop();
});

test('a run that is stopped does not wait for events on their way', async () => {
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  const stopping = new AbortController();
  const run = reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, stopping.signal);
  stopping.abort();
  const outcome = await run.catch((error: unknown) => error);
  assert.is((outcome as Error | undefined)?.name, 'AbortError');
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
  await insert([testEvent({ billingId: other.id, costMicros: 3_000_000, epoch: 0, usedMicros: 3_000_000 })]);
  const found = await decided(lacking);
  assert.equal([found.status, found.difference, found.losses], ['MISSING', '6.5', []], JSON.stringify(found));
  const [missing] = found.gaps;
  assert.equal([missing.events, missing.credits, missing.after.number, missing.before.number], [2, '6.5', 1, 4]);
  assert.match(missing.after.eventId, /^evt_/);

  const metrics = makeMetrics('test');
  const stores = { sql: world.sql, redis, books };
  await reconcileAll(stores, metrics, log, never);
  const told = await workspaceProof();
  const shown = (name: string) => metric(consumer.url, `keytally_reconcile_${name}`);
  await eventually('another process shows the differences', async () => {
    return (await shown('differences')) === told.differentRecords;
  });
  assert.ok((await shown('age_seconds')) > 0);
  assert.ok(Date.parse(told.provedAt!) <= Date.now());
  const { since, ...difference } = told.different.find(({ billingId }) => billingId === id)!;
  assert.equal(difference, {
    billingId: id,
    externalMeterId: lacking.meter,
    status: 'MISSING',
    difference: '6.5',
    heldDifference: '0',
  });
  assert.ok(Date.parse(since) > Date.now() - 600_000);
  assert.is(told.differentRecords, told.different.length);
  const { code, stdout } = await tool();
  assert.is(code, 1);
  assert.match(stdout, new RegExp(`${id} +MISSING +6\\.5`));
  // As one more process does that finds them exact again.
  await world.sql`delete from unproved_records`;
  await eventually('it shows none', async () => (await shown('differences')) === 0);
  await consumer.stop();
});

longTest('a difference is told to webhooks once, however often it is found, and another one again', async () => {
  const consumer = await world.start('consumer');
  const webhook = await listenToAll(world, workspaceId);
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
  const { id } = await customers.billing(one.meter);
  const epoch = await epochInBooks(id);
  // As if Redis had been put back to an earlier state than the books.
  const invent = (costMicros: number, sequence: number) =>
    insert([
      testEvent({ billingId: id, timeMs: Date.now() - 1_000, epoch, sequence, costMicros, usedMicros: costMicros }),
    ]);
  const look = () => reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, never);
  await invent(7_000_000, 2);
  await look();
  const [told] = await webhook.until('books.different', id);
  const { status, difference, billingId, externalMeterId } = told!.data;
  assert.equal([status, difference, billingId, externalMeterId], ['TOO_MUCH', '-7', id, one.meter]);
  await look();
  assert.is((await webhook.told('books.different')).filter(({ subjectId }) => subjectId === id).length, 1);
  await invent(8_000_000, 3);
  await look();
  assert.is((await webhook.until('books.different', id, 2)).length, 2);
  const differs = async () => (await workspaceProof()).different.some(({ billingId }) => billingId === id);
  assert.ok(await differs());
  await books.client.command({
    query: 'alter table usage_events delete where billing_id = {id:String} and seq > 1 settings mutations_sync = 2',
    query_params: { id },
  });
  await look();
  assert.not.ok(await differs(), 'a record that is exact again is told no more');
  await consumer.stop();
});

test('a difference of grants is told with its amount, and told again when it is another one', async () => {
  const consumer = await world.start('consumer');
  const webhook = await listenToAll(world, workspaceId);
  const one = await customers.meteredKey('10');
  const { id } = await customers.billing(one.meter);
  const headers = { 'Idempotency-Key': id };
  const grant = { credits: '5', expiresAt: Date.now() + 30 * 86_400_000 };
  await must(201, world.call('post', `/api/v1/customer-billing/${id}/grant`, grant, { headers }));
  await spend(one, '1');
  await eventually('it is exact, with its grants', async () => {
    const { status, grants } = await proof(one);
    return status === 'EXACT' && grants;
  });
  for (const [times, difference] of ['1', '3', '3'].entries()) {
    // As if the account had lost a refill that Postgres has.
    await world.sql`update billing_records set total_micros = 10000000 + ${Number(difference) * 1_000_000} where id = ${id}`;
    await reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, never);
    const told = await webhook.until('books.different', id, Math.min(times + 1, 2));
    assert.is(told.length, Math.min(times + 1, 2));
    const { status, difference: ofBooks, heldDifference, grantsDifference } = told.at(-1)!.data;
    assert.equal([status, ofBooks, heldDifference, grantsDifference], ['MISSING', '0', '0', difference]);
  }
  const { stdout } = await tool();
  assert.match(stdout, new RegExp(`${id} +MISSING +0\\s+${id} +grants +3`));
  await world.sql`update billing_records set total_micros = 10000000 where id = ${id}`;
  await consumer.stop();
});

longTest('usage that only a verify process remembers is reported once, with its record and amount', async () => {
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
  // As if the shard had been reopened since, and had lost what came after the first event.
  const lost = { kind: 'witness' as const, keyId: '', billingId: id, costMicros: 0, epoch: row!.epoch - 1 };
  await insert([testEvent({ ...lost, sequence: 3, usedMicros: 7_500_000 })]);
  const metrics = makeMetrics('test');
  for (let twice = 0; twice < 2; twice++) await reconcileLost({ sql: world.sql, redis, books }, metrics, log, never);
  const text = await metrics.registry.metrics();
  assert.match(text, /^keytally_lost_events_total\{.*\} 3$/m);
  assert.match(text, /^keytally_lost_microcredits_total\{.*\} 7500000$/m);
  const found = await decided(one);
  assert.equal([found.status, found.losses.length, found.losses[0].credits], ['EXACT', 1, '7.5']);
  await consumer.stop();
});

longTest('usage that bills another sum than the events is a difference, and is summed up again', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  await spend(one, '2');
  await eventually('it is booked', async () => (await customers.usage(one.meter)) === '2');
  const { id } = await customers.billing(one.meter);
  const day = dayOf(Date.now() - 5 * 86_400_000);
  // As after a restore that laid one state of the books over another: a day that is over bills what no event has.
  await books.client.insert({
    table: 'usage_days',
    values: [
      {
        workspace_id: workspaceId,
        billing_id: id,
        day,
        usage_name: 'tokens',
        cost_micros: '50000000',
        events: '50',
        all_events: '50',
      },
    ],
    format: 'JSONEachRow',
  });
  assert.is(await customers.usage(one.meter), '52');
  const found = await decided(one);
  assert.equal(
    [found.status, found.difference, found.usedCredits, found.billedCredits],
    ['TOO_MUCH', '-50', '2', '52'],
    JSON.stringify(found),
  );
  const { code, stdout } = await tool();
  assert.is(code, 1);
  assert.match(stdout, new RegExp(`${id} +TOO_MUCH +-50`));
  await reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, never);
  assert.equal([await customers.usage(one.meter), (await decided(one)).status], ['2', 'EXACT']);
  await consumer.stop();
});

longTest('events that Redis should have counted and has not are too much, not events on their way', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
  const { id } = await customers.billing(one.meter);
  // As if Redis had been put back to an earlier state than the books.
  const later = { billingId: id, timeMs: Date.now() - 1_000, epoch: await epochInBooks(id), sequence: 2 };
  await insert([testEvent({ ...later, costMicros: 5_000_000, usedMicros: 6_000_000 })]);
  const found = await decided(one);
  assert.equal([found.status, found.difference], ['TOO_MUCH', '-5'], JSON.stringify(found));
  await consumer.stop();
});

test('reserved credits that the events have and Redis has not are a difference of their own, beside an exact use', async () => {
  const consumer = await world.start('consumer');
  const one = await customers.meteredKey('1000');
  await spend(one, '1');
  await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
  const exact = await proof(one);
  assert.equal([exact.heldCredits, exact.bookedHeldCredits, exact.heldDifference], ['0', '0', '0']);
  const { id } = await customers.billing(one.meter);
  // As if Redis had forgotten a hold, and its number with it.
  const hold = { billingId: id, timeMs: Date.now() - 1_000, epoch: await epochInBooks(id), sequence: 2 };
  await insert([testLine('hold', { ...hold, holdMicros: 5_000_000, usedMicros: 1_000_000, heldMicros: 5_000_000 })]);
  const found = await decided(one);
  assert.equal(
    [found.status, found.difference, found.heldCredits, found.bookedHeldCredits, found.heldDifference],
    ['TOO_MUCH', '0', '0', '5', '-5'],
    JSON.stringify(found),
  );
  const { code, stdout } = await tool();
  assert.is(code, 1);
  assert.match(stdout, new RegExp(`${id} +TOO_MUCH +0\\s+${id} +reserved +-5`));
  await consumer.stop();
});

longTest('a held record whose note was lost is noted again, and the operator is told of it', async () => {
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

longTest(
  'a loss that was found once is told without reading the events of its days again, until its usage arrives after all',
  async () => {
    const consumer = await world.start('consumer');
    const one = await customers.meteredKey('1000');
    await spend(one, '1');
    await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
    const { id } = await customers.billing(one.meter);
    // As if the shard had been reopened since yesterday, and had lost two of five events.
    const yesterday = { billingId: id, timeMs: Date.now() - 86_400_000, epoch: (await epochInBooks(id)) - 1 };
    const eventOf = (sequence: number) =>
      testEvent({ ...yesterday, sequence, costMicros: 1_000_000, usedMicros: sequence * 1_000_000 });
    await bookEvents([1, 2, 5].map(eventOf));
    await rollUp({ sql: world.sql, books }, Date.now(), never);
    const reconciled = () => reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, never);
    await world.sql`
      insert into job_watermarks (job, at) values ('reconciled', 4e12) on conflict (job) do update set at = excluded.at`;
    await reconciled();
    assert.ok((await countUnproved(world.sql)).ageSeconds! >= 0, 'though a clock was ahead at a comparison before');
    const found = await decided(one);
    assert.equal(
      [found.status, found.losses.length, found.losses[0].events, found.losses[0].credits],
      ['EXACT', 1, 2, '2'],
    );
    const command = 'alter table usage_events delete where billing_id = {id:String} and epoch = {epoch:UInt32}';
    const { epoch } = yesterday;
    await books.client.command({ query: `${command} settings mutations_sync = 2`, query_params: { id, epoch } });
    assert.equal((await proof(one)).losses, found.losses);

    await bookEvents([1, 2, 3, 4, 5].map(eventOf));
    await rollUp({ sql: world.sql, books }, Date.now(), never);
    await eventually('it is exact', async () => (await proof(one)).status === 'EXACT');
    assert.equal((await proof(one)).losses, []);
    await consumer.stop();
  },
);

/** Inserts events with their workspaces, as the consumer does. */
async function insert(events: UsageEvent[]): Promise<CarriedEvent[]> {
  const carried = await makeFillOwners(world.sql, log, systemClock)(events.map(carryDecoded));
  await insertEvents(books, carried, systemClock);
  return carried;
}

async function bookEvents(events: UsageEvent[]): Promise<void> {
  await makeMarkChangedDays(world.sql, systemClock)(await insert(events), Date.now());
}

async function spend({ key }: TestKey, usage: string): Promise<void> {
  const { body } = await must(200, customers.verify({ key, billing: { usage } }));
  assert.is(body.status, 'VALID');
}

async function proof(key: TestKey, url = '') {
  return (await must(200, askProof(key, url))).body.reconciliation;
}

async function askProof({ meter }: TestKey, url: string) {
  const { id } = await customers.billing(meter);
  return world.call('get', `${url}/api/v1/customer-billing/${id}/reconciliation`);
}

// A proof of which not everything came within the time that a request has is repeated.
async function decided(key: TestKey) {
  return eventually('it is decided', async () => {
    const found = await proof(key);
    return found.status !== 'ON_ITS_WAY' && found;
  });
}

async function epochInBooks(id: string): Promise<number> {
  const query = 'select max(epoch) as epoch from usage_events where billing_id = {id:String}';
  const answer = await books.client.query({ query, query_params: { id }, format: 'JSONEachRow' });
  const [row] = await answer.json<{ epoch: number }>();
  return row!.epoch;
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

async function workspaceProof(): Promise<Proof> {
  return (await must(200, world.call('get', `/api/v1/workspace/${workspaceId}/proof`))).body.proof as Proof;
}

type Proof = {
  provedAt?: string;
  differentRecords: number;
  different: { billingId: string; externalMeterId: string; status: string; difference: string; since: string }[];
};
