import { readAccountState, type AccountState } from '../../../shared/books/account-state.ts';
import type { Balance } from '../../../shared/books/balances.ts';
import type { BillingRef } from '../../../shared/books/billing-refs.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { NEVER } from '../../../shared/stores/account-settings.ts';
import { mapLimited } from '../../../shared/runtime/map-limited.ts';
import type { Query, Sql, Transaction } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { readTurned } from './accounts.ts';

// What ended classes and voided grants gave is in the account for a day, and is copied into Postgres before that. A copy is set,
// never added to: it does not matter how often it is made.

const RECORDS = 200;
// Each holds a connection of the pool while it waits for Redis.
const AT_ONCE = 4;
// A class that the account has not begun yet may still come.
const MISSING_AFTER_MS = 60_000;
// An hour less than a day, for clocks that differ.
const REMEMBERED_MS = 23 * 3_600_000;

/**
 * `untold`: what ended and was not copied yet; `held`: what kept credits for holds when it was copied; `epochs`: what was copied
 * in the last day, before the epoch of its shard: the account may have lost it, and ended it another time.
 */
export type Which = 'untold' | 'held' | 'epochs';

/** Copies what ended classes and voided grants of some records gave; returns how many records. */
export async function copyEnded(sql: Sql, redis: ShardedRedis, shards: number[], which: Which): Promise<number> {
  const records = await recordsWith(sql, shards, which);
  // A shard may close meanwhile: then it is tried again.
  await mapLimited(records, AT_ONCE, (record) => copyRecord(sql, redis, record).catch(unlessUnavailable));
  return records.length;
}

/**
 * Copies what ended classes and voided grants of a record gave, as its account has it now. 503 where Redis does not answer a
 * call within two seconds: nothing is changed then, and the sweeper tries again.
 */
export async function copyRecord(sql: Sql, redis: ShardedRedis, record: BillingRef): Promise<void> {
  await sql.begin(async (tx) => {
    // Locked first, as every change to grants does it: copies of one record would wait for each other's rows. And before the
    // account is read: a copy of an earlier reading would undo a later one. What is given back after the reading is noted after
    // this copy, and copied again.
    await tx`select from billing_records where id = ${record.id} for update`;
    const balance = await readTurned(redis, record);
    if (balance) await copy(tx, balance, balance.account && readAccountState(balance.account.state));
  });
}

async function recordsWith(sql: Sql, shards: number[], which: Which): Promise<BillingRef[]> {
  const isWanted = {
    untold: sql`c.told_turn is null`,
    held: sql`c.held_micros > 0`,
    epochs: sql`c.told_epoch < (select epoch from shards s where s.shard = b.shard)`,
  }[which];
  const since = which === 'epochs' ? lately(sql) : sql`0`;
  return sql<BillingRef[]>`
    select b.id, b.shard, b.workspace_id, b.external_meter_id from billing_records b where b.id in (
      (select b.id from grant_classes c join billing_records b on b.id = c.billing_id
       where c.ends_at is not null and ${endOf(sql)} between ${since} and ${now(sql)} and ${isWanted}
         and b.shard = any(${shards}) limit ${RECORDS})
      union
      (select b.id from grants c join billing_records b on b.id = c.billing_id
       where c.voided_at > ${since} and c.before_micros is not null and ${isWanted} and b.shard = any(${shards})
       limit ${RECORDS}))`;
}

async function copy(sql: Transaction, balance: Balance, state: AccountState | undefined): Promise<void> {
  const { billing, epoch, atMs, heldMicros = 0, expiredMicros = 0 } = balance;
  const { number = 0, version = 0, ended = [], classes = [] } = state ?? {};
  const told = sql`told_epoch = ${epoch}, told_turn = ${number}`;
  const isNewer = sql`(coalesce(told_epoch, 0), coalesce(told_turn, 0)) <= (${epoch}::bigint, ${number}::bigint)`;
  const names = ended.map(({ ref }) => ref.split('/').at(-1)!);
  const values = sql`unnest(${names}::text[], ${ended.map(({ usedMicros }) => usedMicros)}::bigint[], ${ended.map(({ heldMicros: held }) => held)}::bigint[])
    as ended (name, used, held)`;
  await sql`
    update grant_classes c set used_micros = ended.used, held_micros = ended.held, ${told}
    from ${values} where c.billing_id = ${billing.id} and c.ref = ended.name and ${isNewer}`;
  await sql`
    update grants g set used_micros = ended.used, held_micros = ended.held, ${told}
    from ${values} where g.billing_id = ${billing.id} and g.id = ended.name and ${isNewer}`;
  // Those that began before the account heard that they were voided. Nothing of their class stands before them any more.
  await sql`
    with late as (
      update grants g set before_micros = ${NEVER}, used_micros = ended.used, held_micros = ended.held, ${told}
      from ${values} where g.billing_id = ${billing.id} and g.id = ended.name and g.voided_at is not null and g.before_micros is null
      returning g.amount_micros)
    update billing_records set granted_micros = granted_micros + (select sum(amount_micros) from late)
    where id = ${billing.id} and exists (select from late)`;
  const hasHeard = sql`exists (select from billing_records b where b.id = ${billing.id} and b.version = ${version})`;
  const open = classes.map(({ ref }) => ref);
  // One of these may have begun only in what Redis has lost since. An account forgets no class and no void before a day is over.
  await sql`
    with never as (
      update grants set before_micros = null, used_micros = null, held_micros = null, told_epoch = null, told_turn = null
      where billing_id = ${billing.id} and before_micros = ${NEVER} and told_epoch < ${epoch}::bigint
        and voided_at > ${atMs - REMEMBERED_MS}::bigint and id <> all(${names})
        and class <> all(${[...open, ...ended.map(({ ref }) => ref)]}) and ${hasHeard} and not ${isWaiting(sql, balance)}
      returning amount_micros)
    update billing_records set granted_micros = granted_micros - (select sum(amount_micros) from never)
    where id = ${billing.id} and exists (select from never)`;
  // Whatever an account does not know that has heard of all settings is not asked for again: it never began, or is forgotten.
  const before = sql`${atMs}::bigint - case when ${hasHeard} then 0 else ${MISSING_AFTER_MS}::int end`;
  const isUntold = (at: ReturnType<typeof endOf>) =>
    sql`(told_turn is null or told_epoch < ${epoch}::bigint and ${at} > ${lately(sql)})`;
  await sql`
    update grant_classes c set ${told}
    where billing_id = ${billing.id} and ends_at is not null and ${isUntold(endOf(sql))}
      and ${endOf(sql)} <= ${before} and ref <> all(${open})`;
  await sql`
    update grants set ${told}
    where billing_id = ${billing.id} and before_micros is not null and ${isUntold(sql`voided_at`)}
      and voided_at <= ${before} and not ${isWaiting(sql, balance)}`;
  await sql`
    update billing_records set held_micros = ${heldMicros}, expired_micros = ${expiredMicros}
    where id = ${billing.id} and (held_micros, expired_micros) <> (${heldMicros}::bigint, ${expiredMicros}::bigint)`;
}

function unlessUnavailable(error: unknown): undefined {
  if (!(error instanceof ApiError) || error.errorName !== 'redis_unavailable') throw error;
}

/** Whether the void of a grant is not in force yet. */
function isWaiting(sql: Query, { adjustment }: Balance) {
  return sql`exists (select from adjustments a where a.billing_id = grants.billing_id and a.grant_id = grants.id
                     and a.number > ${adjustment})`;
}

function endOf(sql: Query) {
  return sql`coalesce(rolls_until, ends_at)`;
}

function now(sql: Query) {
  return sql`extract(epoch from now()) * 1000`;
}

function lately(sql: Query) {
  return sql`extract(epoch from now() - interval '2 days') * 1000`;
}
