import { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import postgres from '../../../shared/stores/postgres-driver.ts';
import { eventsIn } from '../../../shared/events/outbox-watch.ts';
import { connectClickHouse, IS_COUNTED, IS_USAGE } from '../../../shared/stores/clickhouse.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import type { TemporaryServers } from './temporary-servers.ts';

/** What a folder has that the one restored from a backup lacks. */
export type Lost = {
  verifications: number;
  adjustments: number;
  usedMicros: number;
  billingRecords: number;
  /** Usage that was in Redis alone. */
  unbooked: number;
  refills: number;
  refilledMicros: number;
  changes: { at: string; operation: string; resourceId: string }[];
  changeCount: number;
};

const CHANGES_SHOWN = 100;

/** Compares the old servers with those that a backup was loaded into. Both kinds of entries are only ever added to. */
export async function findLost(old: TemporaryServers, restored: TemporaryServers, usageBefore: string): Promise<Lost> {
  const [before, after] = [old, restored].map(({ postgresUrl }) =>
    postgres(postgresUrl('keytally'), { max: 1, onnotice: () => {}, connection: { TimeZone: 'UTC' } }),
  ) as [Sql, Sql];
  try {
    const usage = await usageFrom(`${old.clickhouseUrl}/keytally`, usageBefore);
    const [was, is] = [await countAdded(before), await countAdded(after)];
    const changeCount = was.changes - is.changes;
    return {
      ...usage,
      unbooked: await countUnbooked(old.redisUrl),
      refills: was.refills - is.refills,
      refilledMicros: was.micros - is.micros,
      changeCount,
      changes: await lastChanges(before, Math.min(changeCount, CHANGES_SHOWN)),
    };
  } finally {
    await Promise.all([before.end({ timeout: 1 }), after.end({ timeout: 1 })]);
  }
}

/** What was lost, in lines for an operator. */
export function describeLost(lost: Lost): string[] {
  const count = (number: number, one: string) => `${number.toLocaleString('en')} ${one}${number === 1 ? '' : 's'}`;
  const { verifications, adjustments, usedMicros, billingRecords, unbooked, refills, refilledMicros, changeCount } =
    lost;
  const lines = [
    `${count(verifications, 'verification')} and ${count(adjustments, 'adjustment')}: ` +
      `${formatCredits(usedMicros)} used credits of ${count(billingRecords, 'billing record')}`,
    ...(unbooked > 0 ? [`${count(unbooked, 'event')} of usage that waited in Redis and were in no books yet`] : []),
    `${count(refills, 'refill')}: ${formatCredits(refilledMicros)} bought credits`,
    `${count(changeCount, 'change')} of settings`,
  ];
  const more = changeCount - lost.changes.length;
  return [
    ...lines,
    ...lost.changes.map(({ at, operation, resourceId }) => `  ${at}  ${operation}  ${resourceId}`),
    ...(more > 0 ? [`  and ${more.toLocaleString('en')} before them, in the old folder's audit log`] : []),
  ];
}

async function usageFrom(url: string, usageBefore: string) {
  const { client } = connectClickHouse(url);
  try {
    // An event may stand in the table several times until its parts are merged.
    const result = await client.query({
      query: `select countIf(is_counted), countIf(not is_counted), toString(sum(cost)), uniqExact(billing_id)
              from (select billing_id, any(${IS_COUNTED}) as is_counted, any(cost_micros) as cost
                    from usage_events
                    where time >= fromUnixTimestamp64Milli({fromMs:Int64}) and ${IS_USAGE}
                    group by billing_id, day, event_id)`,
      query_params: { fromMs: Date.parse(usageBefore) },
      format: 'JSONCompactEachRow',
    });
    const [row = []] = await result.json<string[]>();
    const [verifications = 0, adjustments = 0, usedMicros = 0, billingRecords = 0] = row.map(Number);
    return { verifications, adjustments, usedMicros, billingRecords };
  } finally {
    await client.close();
  }
}

async function countAdded(sql: Sql): Promise<{ refills: number; micros: number; changes: number }> {
  const [row] = await sql<[{ refills: string; micros: string; changes: string }]>`
    select (select count(*) from credit_ledger) as refills,
           (select coalesce(sum(amount_micros), 0) from credit_ledger) as micros,
           (select count(*) from audit_log) as changes`;
  return { refills: Number(row.refills), micros: Number(row.micros), changes: Number(row.changes) };
}

async function lastChanges(sql: Sql, count: number): Promise<Lost['changes']> {
  const rows = await sql<{ at: string; operation: string; resource_id: string }[]>`
    select to_char(created_at, 'YYYY-MM-DD HH24:MI:SS') as at, operation, resource_id
    from audit_log order by created_at desc limit ${Math.max(0, count)}`;
  return rows.map(({ at, operation, resource_id: resourceId }) => ({ at, operation, resourceId })).toReversed();
}

async function countUnbooked(url: string): Promise<number> {
  const redis = new Redis(url, { maxRetriesPerRequest: 1 });
  try {
    const pipeline = redis.pipeline();
    for (const shard of ALL_SHARDS) pipeline.xlen(keyspace.outbox(shard)).get(keyspace.more(shard));
    const answers = (await pipeline.exec()) ?? [];
    return ALL_SHARDS.reduce((sum, _, i) => sum + eventsIn(answers[2 * i]?.[1], answers[2 * i + 1]?.[1]), 0);
  } finally {
    redis.disconnect();
  }
}
