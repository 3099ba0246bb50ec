import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import { isOutcome } from '../../../../shared/events/outcome.ts';
import type { Sql } from '../../../../shared/stores/postgres.ts';

type Stores = { sql: Sql; redis: Redis };

// Tables that change without a permitted request: the progress of jobs, the times of last use, and the answers kept under
// an Idempotency-Key, since refusals are kept too; the chain of the audit log, and its lines of refused attempts. Below, also the copies of the credits that Redis counts,
// when a job looks at a workspace again, and what a team's kept answers take.
const notedByJobs = 'job_watermarks key_last_used token_last_used idempotency_keys audit_unchained audit_chain'.split(
  ' ',
);
const copied = ['used_micros', 'held_micros', 'expired_micros', 'total_of_account_micros', 'month_due_at'];

const NOTHING = 'nothing';

/** The content of the stores: a hash for each table, and for each name in Redis, where events wait for the books. */
export async function snapshot(stores: Stores): Promise<Record<string, string>> {
  const parts = await Promise.all([ofPostgres(stores.sql), ofRedis(stores.redis)]);
  return Object.assign({}, ...parts);
}

/** The names of the tables and Redis entries that differ between two snapshots. */
export function differences(before: Record<string, string>, after: Record<string, string>): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => before[name] !== after[name]);
}

async function ofPostgres(sql: Sql): Promise<Record<string, string>> {
  const tables = await sql<{ name: string }[]>`
    select tablename as name from pg_tables where schemaname = 'public' and tablename <> all(${notedByJobs})`;
  // One query: a snapshot of fifty is slow.
  const hashOf = (name: string) => `
    select '${name}' as name, md5(string_agg(row, ' ' order by row)) as rows
    from (select ((to_jsonb(t) - '{${copied.join()}}'::text[]) #- '{used,kept_answer_bytes}')::text as row from ${name} t) as all_rows
    ${name === 'audit_log' ? `where row::jsonb ->> 'outcome' = 'changed'` : ''}`;
  const hashes = await sql.unsafe<{ name: string; rows: string | null }[]>(
    tables.map(({ name }) => hashOf(name)).join(' union all '),
  );
  return Object.fromEntries(hashes.map(({ name, rows }) => [`postgres ${name}`, rows ?? 'empty']));
}

async function ofRedis(redis: Redis): Promise<Record<string, string>> {
  const names: string[] = [];
  for await (const batch of redis.scanStream({ count: 1000 })) names.push(...(batch as string[]));
  // A refusal leaves only its counts, also on their way to the books, and the use of its token.
  const kept = names.filter((name) => !/^\{\d\d\}:(f:|uses$|more$|audit-head$)/.test(name));
  const entries = await Promise.all(kept.map(async (name) => [`redis ${name}`, await ofEntry(redis, name)]));
  return Object.fromEntries(entries.filter(([, entry]) => entry !== NOTHING)) as Record<string, string>;
}

async function ofEntry(redis: Redis, name: string): Promise<string> {
  // A stream also stores when its readers last looked, and a shard how far the sweeper came. An event waits here until it is in
  // the books.
  if (name.endsWith(':outbox')) {
    const entries = await redis.xrange(name, '-', '+');
    const events = entries.filter(([, [, value = '']]) => !isOutcome(value));
    return events.length === 0 ? NOTHING : JSON.stringify(events);
  }
  if (name.endsWith(':meta')) {
    const { checkpoint: _, ...meta } = await redis.hgetall(name);
    return JSON.stringify(meta, Object.keys(meta).toSorted());
  }
  const dumped = await redis.dumpBuffer(name);
  return createHash('sha256').update(dumped).digest('base64url');
}
