import { ApiError } from '../../../../shared/contract/errors.ts';
import { NEVER, PLAIN_CLASS } from '../../../../shared/stores/account-settings.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { MAX_MICROS } from '../../../../shared/values/credits.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { stored } from '../rows.ts';

// Grants of a billing record as Postgres keeps them: by class, of which those that have begun are one sum. All of it happens
// under the lock of the record's row.

const MOST_CLASSES = 16;
// Paid ones among them: settings for Redis have so many, and the periods of ten schedules.
const MOST_ENDS = 70;
const MOST_PENDING = 64;

/** A grant to be made. */
export type NewGrant = {
  id: string;
  amountMicros: number;
  priority: number;
  beginsAt: number;
  expiresAt: number | null;
  name?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** Of a period of a schedule. */
  period?: { scheduleId: string; number: number };
  /** That gave it. */
  planId?: string | undefined;
  /** What is left at its end lives on until then, at most so much. */
  rollover?: { until: number; mostMicros: number };
};

/** Who makes a grant. */
export type GrantMaker = { teamId: string; tokenId: string; requestId: string };

/** A record whose row is locked. */
export type LockedRecord = { id: string };

/**
 * Adds a grant to a locked record, and counts those that have begun until now. Throws where it would be one class, one grant to
 * come, or one credit too many; if not `limited`, only for the credits, and a `paid` one for as many ends as settings for Redis have. Redis has heard of all voids of the record (readHeard).
 */
export async function addGrant(
  sql: Query,
  record: LockedRecord,
  grant: NewGrant,
  maker: GrantMaker,
  nowMs: number,
  { limited = true, paid = false } = {},
): Promise<void> {
  await countBegun(sql, record, nowMs);
  const pending = await requireCreditsFit(sql, record, grant.amountMicros);
  if (limited && grant.beginsAt > nowMs && pending >= MOST_PENDING) throw new ApiError('grant_pending_limit_reached');
  const ref = await classOf(sql, record, grant, nowMs);
  if (ref !== PLAIN_CLASS) await addClass(sql, record, { ...grant, ref, teamId: maker.teamId });
  const { period, rollover, ...given } = grant;
  const of = {
    teamId: maker.teamId,
    tokenId: maker.tokenId,
    requestId: maker.requestId,
    billingId: record.id,
    class: ref,
  };
  const ofPeriod = { scheduleId: period?.scheduleId, period: period?.number, rollsUntil: rollover?.until };
  await sql`insert into grants ${sql(stored(sql, { ...given, ...of, ...ofPeriod }))}`;
  if (isOfItsOwn(ref)) await partPending(sql, record, grant, nowMs);
  // A record with what has begun of the plain class alone stays a plain one.
  if (ref !== PLAIN_CLASS || grant.beginsAt > nowMs)
    await sql`update billing_records set has_classes = true where id = ${record.id}`;
  await countBegun(sql, record, nowMs);
  if (limited || paid) await requireFewClasses(sql, record, nowMs, paid);
  await sql`update billing_records set version = version + 1, updated_at = now() where id = ${record.id}`;
}

/**
 * Counts the grants that have begun until now, the older first: their place in their class is what was counted before. Gives how
 * much it added to total_micros.
 */
export async function countBegun(sql: Query, { id: billingId }: LockedRecord, nowMs: number): Promise<number> {
  const begun = await sql<{ id: string; class: string; amountMicros: number }[]>`
    select id, class, amount_micros from grants
    where billing_id = ${billingId} and before_micros is null and voided_at is null and begins_at <= ${nowMs}
    order by begins_at, id`;
  for (const grant of begun) {
    if (grant.class === PLAIN_CLASS) await countAsBought(sql, billingId, grant.id);
    else await countInClass(sql, billingId, grant);
  }
  const bought = begun.filter((grant) => grant.class === PLAIN_CLASS);
  return bought.reduce((sum, { amountMicros }) => sum + amountMicros, 0);
}

/**
 * The class of a grant: priority and end, and before them the age that decides between classes of both. One that rolls over is a
 * class of its own, and parts those that are older than it from those that are younger. So is one of whose class a grant to
 * come is voided in the same step: Redis may have begun that before it hears of both, and tells them by sums (readHeard).
 */
async function classOf(sql: Query, { id: billingId }: LockedRecord, grant: NewGrant, nowMs: number): Promise<string> {
  const { priority, expiresAt, rollover } = grant;
  const pair = `${priority}:${expiresAt ?? NEVER}`;
  const age = String(grant.beginsAt).padStart(16, '0') + grant.id.slice(-26);
  const ofItsOwn = `${age}a:${pair}`;
  if (rollover) return ofItsOwn;
  const [older] = await sql<{ age: string }[]>`
    select left(ref, ${AGE_LENGTH}) as age from grant_classes
    where billing_id = ${billingId} and ${isOfItsOwnIn(sql)} and priority = ${priority}
      and (ends_at is not distinct from ${expiresAt}::bigint or rolls_until = ${expiresAt}) and left(ref, ${AGE_LENGTH}) < ${age}
    order by ref desc limit 1`;
  const ref = older ? `${older.age}b:${pair}` : `${'b'.padStart(17, '0')}:${pair}`;
  const voided = await sql`
    select from grants
    where billing_id = ${billingId} and class = ${ref} and voided_at >= ${nowMs} and before_micros is null limit 1`;
  return voided.length > 0 ? ofItsOwn : ref;
}

/** Whether a class is that of one grant, which parts the older from the younger. */
function isOfItsOwn(ref: string): boolean {
  return ref[AGE_LENGTH] === 'a';
}

function isOfItsOwnIn(sql: Query) {
  return sql`substr(ref, ${AGE_LENGTH + 1}, 1) = 'a'`;
}

const AGE_LENGTH = 42;

/** Parts grants to come that are younger than a new one of a class of its own from those that are older. */
async function partPending(
  sql: Query,
  { id: billingId }: LockedRecord,
  { id, ...grant }: NewGrant,
  nowMs: number,
): Promise<void> {
  const younger = await sql<(NewGrant & { teamId: string })[]>`
    select id, team_id, amount_micros, priority, begins_at, expires_at from grants
    where billing_id = ${billingId} and before_micros is null and voided_at is null and rolls_until is null
      and priority = ${grant.priority}
      and (expires_at is not distinct from ${grant.expiresAt}::bigint or expires_at = ${grant.rollover?.until ?? null})
      and (begins_at, id) > (${grant.beginsAt}::bigint, ${id})`;
  for (const one of younger) {
    const ref = await classOf(sql, { id: billingId }, one, nowMs);
    await addClass(sql, { id: billingId }, { ...one, ref });
    await sql`update grants set class = ${ref} where id = ${one.id}`;
  }
}

async function addClass(
  sql: Query,
  { id: billingId }: LockedRecord,
  { ref, teamId, priority, expiresAt, rollover }: NewGrant & { ref: string; teamId: string },
): Promise<void> {
  await sql`
    with numbered as (
      update billing_records set last_class = last_class + 1
      where id = ${billingId} and not exists (select from grant_classes where billing_id = ${billingId} and ref = ${ref})
      returning id, last_class, version)
    insert into grant_classes (billing_id, ref, number, team_id, priority, ends_at, rolls_until, roll_max_micros, first_version)
    select id, ${ref}, last_class, ${teamId}, ${priority}, ${expiresAt}, ${rollover?.until ?? null}, ${rollover?.mostMicros ?? 0},
           version + 1
    from numbered`;
}

async function countAsBought(sql: Query, billingId: string, grantId: string): Promise<void> {
  await sql`
    with grown as (
      update billing_records b set total_micros = b.total_micros + g.amount_micros
      from grants g where b.id = ${billingId} and g.id = ${grantId}
      returning g.team_id, g.amount_micros, b.total_micros, g.token_id, g.request_id),
    counted as (
      update grants set before_micros = grown.total_micros - grown.amount_micros from grown where id = ${grantId})
    insert into credit_ledger (id, team_id, billing_id, amount_micros, total_micros, token_id, request_id)
    select ${newId('ledger')}, team_id, ${billingId}, amount_micros, total_micros, token_id, request_id from grown`;
}

type Begun = { id: string; class: string; amountMicros: number };

async function countInClass(sql: Query, billingId: string, { id, class: ref, amountMicros }: Begun): Promise<void> {
  await sql`
    with grown as (
      update grant_classes set begun_micros = begun_micros + ${amountMicros}
      where billing_id = ${billingId} and ref = ${ref} returning begun_micros),
    counted as (
      update grants set before_micros = grown.begun_micros - ${amountMicros} from grown where id = ${id})
    update billing_records set granted_micros = granted_micros + ${amountMicros} where id = ${billingId}`;
}

/** Throws where a locked record would have had too many credits ever; gives how many grants it has that are to come. */
async function requireCreditsFit(sql: Query, { id }: LockedRecord, amountMicros: number): Promise<number> {
  const [row] = await sql<[{ micros: number; pending: number }]>`
    select (b.total_micros + b.granted_micros + coalesce(p.micros, 0))::bigint as micros, p.pending::int as pending
    from billing_records b, lateral (
      select sum(amount_micros) as micros, count(*) as pending from grants
      where billing_id = b.id and before_micros is null and voided_at is null) p
    where b.id = ${id}`;
  if (row.micros + amountMicros > MAX_MICROS) throw new ApiError('credits_too_large');
  return row.pending;
}

async function requireFewClasses(sql: Query, { id }: LockedRecord, nowMs: number, paid: boolean): Promise<void> {
  // What somebody paid keeps nobody from granting.
  const isUnpaid = sql`exists (
    select from grants g where g.billing_id = b.id and g.class = c.ref and g.metadata ->> 'paymentId' is null)`;
  const [row] = await sql<[{ classes: number; ends: number }]>`
    select of_record.unpaid + (b.total_micros > 0 or ${isAwaited(sql, sql`${PLAIN_CLASS}`)})::int as classes, of_record.ends
    from billing_records b, lateral (
      select count(*)::int as ends,
             count(distinct (c.priority, c.ends_at))
               filter (where (c.begun_micros > 0 or ${isAwaited(sql, sql`c.ref`)}) and ${isUnpaid})::int as unpaid
      -- Empty ones too: the settings of a record (loaders/billings.ts) have the latest ends of all.
      from grant_classes c
      where c.billing_id = b.id and coalesce(c.rolls_until, c.ends_at, ${NEVER}) > ${nowMs}) of_record
    where b.id = ${id}`;
  if ((!paid && row.classes > MOST_CLASSES) || row.ends > MOST_ENDS) throw new ApiError('grant_class_limit_reached');
}

/** Whether a class of the record `b` has grants to come. */
function isAwaited(sql: Query, ref: ReturnType<Query>) {
  return sql`exists (select from grants g where g.billing_id = b.id and g.class = ${ref}
                     and g.before_micros is null and g.voided_at is null)`;
}
