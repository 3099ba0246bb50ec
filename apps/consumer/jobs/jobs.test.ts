import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import { dayOf, eventColumns, eventRow, type UsageEvent } from '../../../shared/events/event.ts';
import { newId } from '../../../shared/values/ids.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { eventually } from '../../../tests/helpers/world.ts';
import { removeExpired } from './expire.ts';
import { startJobs, type Job } from './jobs.ts';
import { makeMarkChangedDays } from '../changed-days.ts';
import { copyRecentUse } from './recent-use.ts';
import { rollUp } from './rollup.ts';
import { makeBench, type Bench } from '../helpers/consumer.ts';

const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 2, 10, 12);
const never = new AbortController().signal;
let bench: Bench;
let stores: { sql: Bench['world']['sql']; books: Books };
const test = suite('jobs');
test.before(async () => {
  bench = await makeBench();
  stores = { sql: bench.world.sql, books: bench.books };
});
test.after(() => bench.stop());

test('an open day stays marked; a day that is over is summed up by usage name and unmarked', async () => {
  const billingId = newId('bill');
  const yesterday = NOON - DAY_MS;
  await book(NOON, [
    usage(billingId, { timeMs: yesterday, usageName: 'a', costMicros: 5 }),
    usage(billingId, { timeMs: yesterday, usageName: 'a', costMicros: 0 }),
    usage(billingId, { timeMs: yesterday, usageName: 'b', costMicros: 9_000_000_000_000_000 }),
    usage(billingId, { timeMs: NOON, usageName: 'a', costMicros: 7 }),
    usage('', { timeMs: yesterday }),
  ]);
  assert.equal(
    (await marks(billingId)).map((mark) => mark.day),
    [dayOf(yesterday), dayOf(NOON)],
  );
  await rollUp(stores, NOON, never);
  assert.equal(
    (await marks(billingId)).map((mark) => mark.day),
    [dayOf(NOON)],
  );
  assert.equal(await daily(billingId), [
    { day: dayOf(yesterday), name: 'a', cost: '5', events: '2' },
    { day: dayOf(yesterday), name: 'b', cost: '9000000000000000', events: '1' },
  ]);
  assert.is((await bench.world.sql`select from usage_marks where billing_id = ''`).count, 0);
});

test('a day settles for ten minutes after its end before it is summed up', async () => {
  const billingId = newId('bill');
  const midnight = Date.UTC(2026, 2, 10);
  await book(midnight, [usage(billingId, { timeMs: midnight - 1 })]);
  await rollUp(stores, midnight + 9 * 60_000, never);
  assert.is((await marks(billingId)).length, 1);
  await rollUp(stores, midnight + 10 * 60_000, never);
  assert.is((await marks(billingId)).length, 0);
});

test('a late event marks its day again, and the day is computed anew; doubled events do not count', async () => {
  const billingId = newId('bill');
  const first = usage(billingId, { timeMs: NOON - DAY_MS, costMicros: 3 });
  await book(NOON, [first]);
  await rollUp(stores, NOON, never);
  const late = usage(billingId, { timeMs: NOON - DAY_MS, costMicros: 4 });
  await book(NOON, [late, first, late]);
  assert.is((await marks(billingId)).length, 1);
  await rollUp(stores, NOON, never);
  assert.is((await marks(billingId)).length, 0);
  assert.equal(await daily(billingId), [{ day: dayOf(first.timeMs), name: 'default', cost: '7', events: '2' }]);
});

test('a mark that changed while its day was summed up is not cleared', async () => {
  const billingId = newId('bill');
  await book(NOON, [usage(billingId, { timeMs: NOON - DAY_MS })]);
  const [before] = await marks(billingId);
  const client = new Proxy(stores.books.client, {
    get: (target, name) =>
      name === 'command'
        ? async (...args: Parameters<typeof target.command>) => {
            await target.command(...args);
            await book(NOON, [usage(billingId, { timeMs: NOON - DAY_MS })]);
          }
        : Reflect.get(target, name, target),
  });
  await rollUp({ ...stores, books: { ...stores.books, client } }, NOON, never);
  const [after] = await marks(billingId);
  assert.ok(after!.mark > before!.mark);
  await rollUp(stores, NOON, never);
  assert.is((await marks(billingId)).length, 0);
  assert.equal(
    (await daily(billingId)).map((row) => row.events),
    ['2'],
  );
});

test('many records and days are summed up in one run', async () => {
  const records = Array.from({ length: 450 }, () => newId('bill'));
  const days = [1, 2, 40];
  await book(
    NOON,
    records.flatMap((id) => days.map((ago) => usage(id, { timeMs: NOON - ago * DAY_MS, costMicros: 2 }))),
  );
  await rollUp(stores, NOON, never);
  assert.is((await bench.world.sql`select from usage_marks where billing_id = any(${records})`).count, 0);
  const [sums] = await bench.rows(
    `select toUInt32(count()) as rows, toUInt32(sum(cost_micros)) as cost from usage_daily final
     where billing_id in {records:Array(String)}`.replace(
      '{records:Array(String)}',
      `(${records.map((id) => `'${id}'`).join(',')})`,
    ),
  );
  assert.equal(sums, { rows: 1_350, cost: 2_700 });
});

test('within a day a record is marked once by each process; on a new day, and for another day, again', async () => {
  const billingId = newId('bill');
  const markChangedDays = makeMarkChangedDays(bench.world.sql);
  const now = [usage(billingId, { timeMs: NOON })];
  const marked = async (events: UsageEvent[], nowMs: number) => {
    await markChangedDays(events, nowMs);
    return (await marks(billingId)).map((mark) => mark.mark);
  };
  const [first] = await marked(now, NOON);
  assert.equal(await marked(now, NOON + 1), [first]);
  // The day is over by the clock that was read after the insert: it may have been rolled up meanwhile.
  const [second] = await marked(now, NOON + DAY_MS);
  assert.ok(second! > first!);
  const [third] = await marked(now, NOON + DAY_MS);
  assert.ok(third! > second!);
  // The clock was set back: what was marked before may have been cleared.
  const [fourth] = await marked(now, NOON);
  assert.ok(fourth! > third!);
});

test('last use and used credits are copied to Postgres; unknown keys and late events do no harm', async () => {
  const { sql } = bench.world;
  const { keyId, billingId } = await newKeyAndRecord();
  const now = Date.now();
  const at = (sequence: number, timeMs = now - 1_000_000 + sequence): UsageEvent =>
    usage(billingId, { keyId, timeMs, sequence, usedMicros: 100 * sequence });
  await book(now, [at(3), at(1), at(2), usage('', { keyId: newId('key') })]);
  await copyRecentUse(stores, never);
  const read = async () => {
    const [record] =
      await sql`select used_micros, version, updated_at = created_at as untouched from billing_records where id = ${billingId}`;
    const [key] = await sql`select last_used_at from key_last_used where key_id = ${keyId}`;
    return { ...record, lastUsedAt: key!.lastUsedAt as number };
  };
  assert.equal(await read(), { usedMicros: 300, version: 1, untouched: true, lastUsedAt: at(3).timeMs });
  assert.is((await sql`select from key_last_used`).count, 1);

  // Newer ones are in the books since long before the time looked at now.
  await sql`update job_watermarks set at = ${Date.now() + 61_000} where job = 'recent_use'`;
  await sleep(1_100);
  await book(now, [at(2, now - 2_000_000)]);
  await copyRecentUse(stores, never);
  assert.equal(await read(), { usedMicros: 300, version: 1, untouched: true, lastUsedAt: at(3).timeMs });

  await book(now, [
    { ...at(4, now), epoch: 1 },
    { ...at(1, now + 5), epoch: 2 },
  ]);
  await copyRecentUse(stores, never);
  assert.equal(await read(), { usedMicros: 100, version: 1, untouched: true, lastUsedAt: now + 5 });
});

test('expired rows are removed, changes only up to the first that waits, and how far is noted', async () => {
  const { sql, team } = bench.world;
  const [token] = await sql<{ id: string }[]>`select id from access_tokens limit 1`;
  const { workspaceId } = await newKeyAndRecord();
  for (const age of ['25 hours', '23 hours']) {
    await sql`insert into idempotency_keys (token_id, team_id, key_hash, request_hash, created_at)
              values (${token!.id}, ${team.id}, ${age}, '', now() - ${age}::interval)`;
  }
  for (const age of ['31 days', '29 days']) {
    await sql`insert into link_tokens (id, team_id, workspace_id, customer_id, hash, expires_at)
              values (${newId('link')}, ${team.id}, ${workspaceId}, 'c', ${age}, extract(epoch from now() - ${age}::interval) * 1000)`;
  }
  await sql`delete from changes`;
  const change = async (entity: string, applied: string | null) => {
    const [row] = await sql<{ tx: number }[]>`
      insert into changes (kind, entity_id, created_at, applied_at)
      values ('key', ${entity}, now() + interval '1 hour', now() - ${applied}::interval) returning tx::text::bigint as tx`;
    return row!.tx;
  };
  await change('old', '25 hours');
  const second = await change('old too', '25 hours');
  await change('new', '23 hours');
  const third = await change('old, below the one that waits', '25 hours');
  const waits = await change('waits', null);
  const last = await change('old, above the one that waits', '25 hours');
  assert.ok(second < third && waits < last);
  // A transaction of any other test on the same server that is still open holds the removal back, as it must.
  const removeAll = () =>
    eventually('nothing older is open', async () => {
      await removeExpired(sql, never);
      const [{ xmin }] = await sql<
        [{ xmin: number }]
      >`select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xmin`;
      return xmin > last;
    });

  await removeAll();
  assert.equal(
    (await sql`select key_hash from idempotency_keys`).map((row) => row.keyHash),
    ['23 hours'],
  );
  assert.equal(
    (await sql`select hash from link_tokens`).map((row) => row.hash),
    ['29 days'],
  );
  const left = async () => (await sql`select entity_id from changes order by id`).map((row) => row.entityId);
  const pruned = async () => (await sql`select at from job_watermarks where job = 'changes_pruned'`)[0]!.at;
  assert.equal(await left(), ['new', 'waits', 'old, above the one that waits']);
  assert.is(await pruned(), third);

  await sql`update changes set applied_at = now() where entity_id = 'waits'`;
  await removeAll();
  assert.equal(await left(), ['new', 'waits']);
  assert.is(await pruned(), last);
});

test('a job never runs twice at once, is done again after a failure, and stopping waits for it', async () => {
  let now = 0;
  let most = 0;
  let runs = 0;
  let stopped = 0;
  const job: Job = {
    name: 'test',
    cron: '* * * * * *',
    async work(signal) {
      most = Math.max(most, ++now);
      runs += 1;
      await sleep(1_200, undefined, { signal }).catch(() => (stopped += 1));
      now -= 1;
      if (runs === 1) throw new Error('the first time fails');
    },
  };
  const { world, metrics, log } = bench;
  const connect = () => connectPostgres(world.env.DATABASE_URL!, { max: 1 });
  const processes = [1, 2].map(() => startJobs([job], { connect, metrics, log }));
  await eventually('it ran again', async () => runs >= 2);
  await Promise.all(processes.map((one) => one.stop()));
  assert.equal([now, most], [0, 1]);
  const text = await metrics.registry.metrics();
  assert.match(text, /keytally_job_seconds_count\{(?=.*job="test").*outcome="failed".*\} 1\n/);
  const after = runs;
  await sleep(1_100);
  assert.is(runs, after);
});

test.run();

function usage(billingId: string, more: Partial<UsageEvent> = {}): UsageEvent {
  return testEvent({ timeMs: NOON, billingId, ...more });
}

/** What the consumer does with a batch: insert, then mark. */
async function book(nowMs: number, events: UsageEvent[]): Promise<void> {
  await stores.books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: events.map(eventRow),
    format: 'JSONCompactEachRow',
  });
  await makeMarkChangedDays(bench.world.sql)(events, nowMs);
}

function marks(billingId: string) {
  return bench.world.sql<{ day: string; mark: number }[]>`
    select day, mark from usage_marks where billing_id = ${billingId} order by day`;
}

function daily(billingId: string) {
  return bench.rows<{ day: string; name: string; cost: string; events: string }>(
    `select toString(day) as day, usage_name as name, toString(cost_micros) as cost, toString(events) as events
     from usage_daily final where billing_id = {billingId:String} order by usage_daily.day, name`,
    { billingId },
  );
}

async function newKeyAndRecord() {
  const { sql, team } = bench.world;
  const [workspaceId, keyId, billingId] = [newId('ws'), newId('key'), newId('bill')];
  await sql`insert into workspaces (id, team_id, name) values (${workspaceId}, ${team.id}, 'w')`;
  await sql`insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled)
            values (${keyId}, ${team.id}, ${workspaceId}, 0, 'k', 'key', '', true)`;
  await sql`insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
            values (${billingId}, ${team.id}, ${workspaceId}, 'm', 0, 0, true)`;
  return { workspaceId, keyId, billingId };
}
