import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeMarkChangedDays } from '../../apps/consumer/changed-days.ts';
import { makeFillOwners } from '../../apps/consumer/fill-owners.ts';
import { insertEvents } from '../../apps/consumer/insert-events.ts';
import { carryDecoded } from '../../shared/events/carried-event.ts';
import { encodeEvent, EVENT_FIELD, type UsageEvent } from '../../shared/events/event.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { keyspace, meterShard } from '../../shared/stores/keyspace.ts';
import { newId } from '../../shared/values/ids.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { testEvent } from './events.ts';
import { untilWritten } from './own-redis.ts';
import { makeRebuildWorld } from './rebuild-world.ts';
import { refusingBooks } from './refusing-books.ts';
import { eventually, type Spawned } from './world.ts';

/** A billing record, and the name of its hash in Redis. */
export type TestRecord = { id: string; shard: number; meter: string; name: string };
export type BehindWorld = Awaited<ReturnType<typeof makeBehindWorld>>;

const ROWS_AT_ONCE = 10_000;
const CREDIT = 1_000_000;

/**
 * A test file's own world with a Redis of its own, a ClickHouse that refuses what a test says, and ways to make the books
 * have events of billing records that Redis lacks. The api can be killed and started again.
 */
export async function makeBehindWorld(name: string) {
  const own = await makeRebuildWorld(name, { BUS: 'redis' });
  const { world, redis, customers } = own;
  const refusing = await refusingBooks(world.env.CLICKHOUSE_URL!);
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  /** Waits until all changes are in force, or all of some kinds. */
  const inForce = (kinds = ['token', 'workspace', 'scope', 'key', 'billing', 'adjustment']) =>
    eventually(
      'changes are in force',
      async () => {
        const waiting = await world.sql`select from changes where applied_at is null and kind = any(${kinds})`;
        return waiting.count === 0;
      },
      600_000,
    );
  const [{ workspaceId }] = await world.sql<[{ workspaceId: string }]>`select id as workspace_id from workspaces`;
  const recordOf = (id: string, meter: string): TestRecord => {
    const shard = meterShard(workspaceId, meter);
    return { id, shard, meter, name: keyspace.billing(shard, workspaceId, meter) };
  };
  await world.api.stop();

  return {
    ...own,
    refusing,
    inForce,
    /** Starts an api whose ClickHouse refuses what the test says. */
    startApi: (env: Record<string, string> = {}): Promise<Spawned> =>
      world.start('api', { CLICKHOUSE_URL: refusing.url, ...env }),
    /** A key with a billing record, made by this api. */
    async newKey(api: Spawned, settings: object = {}) {
      world.api.url = api.url;
      const meter = await customers.newMeter({ totalCredits: '1000', ...settings });
      const { id } = await customers.billing(meter);
      return { ...(await customers.newKey({ externalMeterId: meter })), meter, record: recordOf(id, meter) };
    },
    /** Stores billing records in Postgres, from where an api brings them into force. */
    async newRecords(count: number): Promise<TestRecord[]> {
      const records = Array.from({ length: count }, () => recordOf(newId('bill'), `meter-${newId('key')}`));
      for (let i = 0; i < count; i += ROWS_AT_ONCE) {
        const some = records.slice(i, i + ROWS_AT_ONCE);
        const [ids, shards] = [some.map(({ id }) => id), some.map(({ shard }) => shard)];
        await world.sql`
          insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
          select id, ${world.team.id}, ${workspaceId}, meter, shard, 1000000000, true
          from unnest(${ids}::text[], ${some.map(({ meter }) => meter)}::text[], ${shards}::smallint[]) as made (id, meter, shard)`;
        await world.sql`
          insert into changes (kind, entity_id, shard, created_at) select 'billing', id, shard, now() - interval '1 hour'
          from unnest(${ids}::text[], ${shards}::smallint[]) as made (id, shard)`;
      }
      await inForce(['billing']);
      return records;
    },
    /** Two verifications of each record in the current epoch, one credit each, that only the books know. */
    async bookTwoEach(records: TestRecord[]): Promise<void> {
      const epochs = await epochsOf();
      for (let i = 0; i < records.length; i += ROWS_AT_ONCE) {
        const events = records.slice(i, i + ROWS_AT_ONCE).flatMap((record) => twoOf(record, epochs[record.shard]!));
        const carried = await makeFillOwners(
          world.sql,
          makeLogger('test', 'silent'),
          systemClock,
        )(events.map(carryDecoded));
        await insertEvents(books, carried, systemClock);
        await makeMarkChangedDays(world.sql, systemClock)(carried, Date.now());
      }
    },
    /** The same, of an epoch before the current one, on their way to the books. */
    async sendTwoEachLate(records: TestRecord[]): Promise<void> {
      const epochs = await epochsOf();
      for (const record of records)
        for (const event of twoOf(record, epochs[record.shard]! - 1))
          await redis.admin.xadd(keyspace.outbox(record.shard), '*', EVENT_FIELD, encodeEvent(event));
    },
    /** How many of these records have those two in their balances. */
    async settled(records: TestRecord[]): Promise<number> {
      const pipeline = redis.admin.pipeline();
      for (const { name } of records) pipeline.hmget(name, 'u', 'c');
      const answers = (await pipeline.exec()) ?? [];
      return answers.filter(([, counters]) => String(counters) === `${2 * CREDIT},2`).length;
    },
    /** What is noted as unsettled. */
    unsettled: () =>
      world.sql<{ billingId: string; attempts: number }[]>`select billing_id, attempts from unsettled_records`,
    /** Whether nothing is left to look for or to settle, but for one record. */
    async isSettledBut({ id }: TestRecord): Promise<boolean> {
      const [row] = await world.sql<[{ done: boolean }]>`
        select not exists (select from shards where behind_since is not null)
               and not exists (select from unsettled_records where billing_id <> ${id}) as done`;
      return row.done;
    },
    /** Kills Redis and starts it again, with all its data: its shards are closed then. */
    async restartRedis(): Promise<void> {
      await untilWritten(redis.admin);
      await redis.end('SIGKILL');
      await redis.start();
    },
    allOpen: () =>
      eventually('all shards are open', async () => {
        const runId = /run_id:(\w+)/.exec(await redis.admin.info('server'))?.[1];
        const owners = await Promise.all(ALL_SHARDS.map((shard) => redis.admin.hget(keyspace.meta(shard), 'owner')));
        return owners.every((owner) => owner === runId);
      }),
    async metric(api: Spawned, name: string): Promise<number> {
      const text = await (await fetch(`${api.url}/metrics`)).text();
      const line = new RegExp(`^${name}\\{.*\\} (\\S+)$`, 'm').exec(text);
      assert.ok(line, name);
      return Number(line[1]);
    },
    async stop(): Promise<void> {
      refusing.close();
      await books.close();
      await own.stop();
    },
  };

  async function epochsOf(): Promise<number[]> {
    const epochs = await Promise.all(ALL_SHARDS.map((shard) => redis.admin.hget(keyspace.meta(shard), 'epoch')));
    return epochs.map(Number);
  }
}

function twoOf({ id }: TestRecord, epoch: number): UsageEvent[] {
  return [1, 2].map((sequence) => {
    const amounts = { costMicros: CREDIT, usedMicros: sequence * CREDIT };
    return testEvent({ billingId: id, epoch, sequence, ...amounts });
  });
}
