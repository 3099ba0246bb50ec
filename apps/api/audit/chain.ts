import type { Query, Sql } from '../../../shared/stores/postgres.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';

// A line may have 128 KiB.
const LINES_AT_ONCE = 200;

/** What a proof found: up to which head it is whole, and how many lines before the first that is `broken` are proved. */
export type Proof = { head: Head | undefined; lines: number; broken?: string };

type ProofOptions = {
  /** A head up to which the chain was proved before; by default it is proved from its beginning. */
  since?: Head | undefined;
  /** Other heads that the chain had: it must still have them. */
  known: Head[];
};

/** Chains some lines, all or none; gives whether more may be waiting. */
export async function chainSome(sql: Query): Promise<boolean> {
  const [{ chained }] = await sql<[{ chained: number }]>`select chain_audit_log(${LINES_AT_ONCE}) as chained`;
  return chained === LINES_AT_ONCE;
}

/** The last place of the chain, undefined while it has no line; and the first of the known heads that it does not have among its places. */
export async function chainHead(
  sql: Query,
  known: Head[] = [],
): Promise<{ head: Head | undefined; lacks: Head | undefined }> {
  const [row] = await sql<[{ head: string | null; lacks: number | null }]>`
    select (select number || ':' || encode(hash, 'hex') from audit_chain order by number desc limit 1) as head,
           (select place::int from unnest(${known.map(({ number }) => number)}::bigint[], ${known.map(({ hash }) => hash)}::text[])
                                   with ordinality as known (number, hash, place)
            where not exists (select from audit_chain c where c.number = known.number and c.hash = decode(known.hash, 'hex') offset 0)
            order by place limit 1) as lacks`;
  return { head: parseHead(row.head ?? ''), lacks: row.lacks === null ? undefined : known[row.lacks - 1] };
}

/** How long the oldest line has waited that is not in the chain, in seconds. It reads one row, however many wait. */
export async function oldestWaiting(sql: Query): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select extract(epoch from clock_timestamp() - noted_at)::float8 as seconds from audit_unchained order by line_id limit 1`;
  return Math.max(0, row?.seconds ?? 0);
}

/** Proves the chain in one walk, so that its length costs time alone; stops at the first fault. */
export async function proveAuditLog(sql: Query, { since, known }: ProofOptions): Promise<Proof> {
  const { head: end, lacks } = await chainHead(sql, since ? [...known, since] : known);
  if (lacks) return { head: since, lines: 0, broken: `the chain had the head ${headText(lacks)}, and has it no more` };
  const start = since?.number ?? 0;
  // The place before the first one is among them, for its hash.
  const [fault] = await sql<{ provedTo: number; broken: string }[]>`
    select * from (
      select c.number, c.number_before as proved_to,
             case when c.number <> c.number_before + 1 then 'line ' || c.number_before + 1 || ' of the chain is gone'
                  when l.id is null then 'line ' || c.number || ', ' || c.line_id || ', is gone'
                  when c.hash <> audit_hash(c.hash_before, c.number, l)
                    then 'line ' || c.number || ', ' || c.line_id || ', is not as it was written' end as broken
      from (select *, coalesce(lag(number) over places, 0) as number_before, lag(hash) over places as hash_before
            from audit_chain where number between ${start} and ${end?.number ?? 0} window places as (order by number)) c
      left join lateral (select * from audit_log where id = c.line_id offset 0) l on true
      where c.number > ${start}) as proved
    where broken is not null order by number limit 1`;
  if (fault) return { head: since, lines: fault.provedTo - start, broken: fault.broken };
  const loose = await looseLine(sql, start);
  return { head: end ?? since, lines: (end?.number ?? start) - start, ...(loose !== undefined && { broken: loose }) };
}

// A line is in the chain, or noted for it. Any other came past the triggers, or lost its place in the chain.
async function looseLine(sql: Query, start: number): Promise<string | undefined> {
  const [row] = await sql<[{ vanished: string | null; planted: string | null }]>`
    select (select line_id from audit_unchained u where not exists (select from audit_log l where l.id = u.line_id)
            order by line_id limit 1) as vanished,
           (select id from audit_log l
            where id > coalesce((select line_id from audit_chain where number = ${start}), '')
              and not exists (select from audit_chain c where c.line_id = l.id)
              and not exists (select from audit_unchained u where u.line_id = l.id)
            order by id limit 1) as planted`;
  if (row.vanished !== null) return `${row.vanished}, which was not chained yet, is gone`;
  return row.planted === null ? undefined : `${row.planted} is in the audit log and not in its chain`;
}

/** A place in the chain: how many lines it has up to there, and the hash of the last one. */
export type Head = { number: number; hash: string };

/** A head as people and Redis keep it. */
export function headText({ number, hash }: Head): string {
  return `${number}:${hash}`;
}

/** Reads what `headText` wrote; undefined for any other text. */
export function parseHead(text: string): Head | undefined {
  const [, number, hash] = /^([1-9]\d{0,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  return hash === undefined ? undefined : { number: Number(number), hash };
}

// The head of the chain is kept in Redis too: who writes the chain of Postgres again, or removes its newest lines, can't do so there.

/** The head that Redis keeps; undefined if it keeps none. */
export async function readKeptHead(redis: ShardedRedis): Promise<Head | undefined> {
  const text = await redis.node(0).client.get(keyspace.auditHead());
  if (text === null) return undefined;
  const head = parseHead(text);
  if (!head) throw new Error('what Redis keeps as the head of the audit log is no head');
  return head;
}

/** Forgets the head: for an operator who has put an older Postgres back. */
export async function forgetHead(redis: ShardedRedis): Promise<void> {
  await redis.node(0).client.unlink(keyspace.auditHead());
}

/** Whether a line waits for its place in the chain. */
export function isLineWaiting(sql: Sql) {
  return sql`exists (select from audit_unchained)`;
}

type ChainerOptions = { sql: Sql; redis: ShardedRedis; metrics: Metrics; log: Logger };

const TELL_EVERY_MS = 60_000;

/**
 * Chains the lines of the audit log after their commit, within about a second. Every api does this; one at a time works.
 * 1. Chain what waits. A crash leaves it waiting.
 * 2. Keep the new head in Redis, if the chain still has the one kept there. A crash before it leaves an earlier head.
 */
export function makeChainer(options: ChainerOptions): () => Promise<void> {
  const { sql, metrics, log } = options;
  const { clock } = options.redis;
  let told = { at: -Infinity, head: '' };
  let toldBroken = false;
  return async () => {
    try {
      while (await chainSome(sql));
    } finally {
      metrics.auditUnchainedSeconds.set(await oldestWaiting(sql));
    }
    const kept = await readKeptHead(options.redis);
    const { head, lacks } = await chainHead(sql, kept ? [kept] : []);
    metrics.auditLogBroken.set(lacks ? 1 : 0);
    if (lacks && !toldBroken) log.error('the audit log was changed: its chain does not have the head that Redis keeps');
    toldBroken = lacks !== undefined;
    // What is kept of a chain that lacks it stays, as the evidence.
    if (!lacks && head && head.number > (kept?.number ?? 0))
      await options.redis.node(0).client.set(keyspace.auditHead(), headText(head));
    // In the log too, which is often collected elsewhere.
    if (!head || headText(head) === told.head || clock.monotonic() < told.at + TELL_EVERY_MS) return;
    told = { at: clock.monotonic(), head: headText(head) };
    log.info({ head: told.head }, 'the audit log is chained up to this head');
  };
}
