import { Redis } from 'ioredis';
import { connectKafka, waitingIn } from '../../../shared/events/kafka.ts';
import { eventsIn } from '../../../shared/events/outbox-watch.ts';
import { readConfig } from '../../../shared/runtime/config.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { groups } from '../../../shared/runtime/variables.ts';
import { connectClickHouse, IS_COUNTED, IS_USAGE } from '../../../shared/stores/clickhouse.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { withConnection } from '../servers/postgres.ts';
import type { TemporaryServers } from './temporary-servers.ts';

const CHANGES_SHOWN = 100;

/**
 * Compares the old servers with those that a backup was loaded into; gives what was lost, in lines for an operator. Rows of all that it
 * counts are only ever added.
 */
export async function findLost(
  old: TemporaryServers,
  restored: TemporaryServers,
  usageBefore: string,
): Promise<string[]> {
  const count = (number: number, one: string) => `${number.toLocaleString('en')} ${one}${number === 1 ? '' : 's'}`;
  const [verifications, adjustments, usedMicros, records] = await usageFrom(old, usageBefore);
  const [inRedis, inKafka] = [await countInRedis(old), await countInKafka(old)];
  const [was, is] = [await countAdded(old), await countAdded(restored)];
  const changes = was.changes - is.changes;
  const shown = Math.min(Math.max(0, changes), CHANGES_SHOWN);
  const more = changes - shown;
  return [
    `${count(verifications, 'verification')} and ${count(adjustments, 'adjustment')}: ` +
      `${formatCredits(usedMicros)} used credits of ${count(records, 'billing record')}`,
    ...(inRedis > 0 ? [`${count(inRedis, 'event')} of usage that waited in Redis and were in no books yet`] : []),
    // The books may have some of them already, and some may be refused calls.
    ...(inKafka > 0 ? [`up to ${count(inKafka, 'event')} of usage that waited in Kafka`] : []),
    `${count(was.refills - is.refills, 'refill')}: ${formatCredits(was.micros - is.micros)} bought credits`,
    `${count(changes, 'change')} of settings`,
    ...(await lastChanges(old, shown)),
    ...(more > 0 ? [`  and ${more.toLocaleString('en')} before them, in the old folder's audit log`] : []),
  ];
}

/** Of the usage from a moment on: verifications, adjustments, credits in millionths, and billing records. */
async function usageFrom(
  { addresses }: TemporaryServers,
  usageBefore: string,
): Promise<[number, number, number, number]> {
  const { client } = connectClickHouse(addresses('keytally').CLICKHOUSE_URL);
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
    return row.map(Number) as [number, number, number, number];
  } finally {
    await client.close();
  }
}

async function countAdded({ addresses }: TemporaryServers) {
  const [row] = await withConnection(
    addresses('keytally').DATABASE_URL,
    (sql) => sql<[{ refills: string; micros: string; changes: string }]>`
      select (select count(*) from credit_ledger) as refills,
             (select coalesce(sum(amount_micros), 0) from credit_ledger) as micros,
             (select count(*) from audit_log) as changes`,
  );
  return { refills: Number(row.refills), micros: Number(row.micros), changes: Number(row.changes) };
}

async function lastChanges({ addresses }: TemporaryServers, count: number): Promise<string[]> {
  const rows = await withConnection(
    addresses('keytally').DATABASE_URL,
    (sql) => sql<{ at: string; operation: string; resource_id: string }[]>`
      select to_char(created_at, 'YYYY-MM-DD HH24:MI:SS') as at, operation, resource_id
      from audit_log order by created_at desc limit ${count}`,
  );
  return rows.map((row) => `  ${row.at}  ${row.operation}  ${row.resource_id}`).toReversed();
}

async function countInRedis({ addresses }: TemporaryServers): Promise<number> {
  const redis = new Redis(addresses('keytally').REDIS_URL, { maxRetriesPerRequest: 1 });
  try {
    const pipeline = redis.pipeline();
    for (const shard of ALL_SHARDS) pipeline.xlen(keyspace.outbox(shard)).get(keyspace.more(shard));
    const answers = (await pipeline.exec()) ?? [];
    return ALL_SHARDS.reduce((sum, _, i) => sum + eventsIn(answers[2 * i]?.[1], answers[2 * i + 1]?.[1]), 0);
  } finally {
    redis.disconnect();
  }
}

async function countInKafka({ kafka: login }: TemporaryServers): Promise<number> {
  if (!login) return 0;
  const kafka = connectKafka({ ...readConfig(groups.kafka), ...login }, 'stack', makeLogger('stack', 'silent'));
  try {
    return waitingIn(await kafka.progress());
  } finally {
    await kafka.close();
  }
}
