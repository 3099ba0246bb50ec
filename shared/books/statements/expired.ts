import { ask, type Records } from './ask.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { readBooked, sum } from '../sums/booked.ts';
import { byRecord, MERGED, MOST_OF_A_KIND, type Movement } from './movements.ts';
import { dayIn, type Span } from './span.ts';

type Stores = { sql: Query; books: Books };

/** Reads what lines let expire of classes: what was left of grants that ended, rolled over or were voided, and what was given back of them. */
export async function readExpired(
  stores: Stores,
  { workspaceId, ids }: Records,
  span: Span,
): Promise<Map<string, Movement[]>> {
  const { sql, books } = stores;
  const accounts = await withClasses(sql, ids, span.endMs);
  if (accounts.length === 0 || span.endMs <= span.startMs) return new Map();
  const rows = await readTold(books, await paramsOf(sql, { workspaceId, ids: accounts }, span));
  const classes = rows.flatMap(([id, , each]) => each.map(([, number]) => ({ id, number })));
  return byRecord(movementsOf(rows, await namesOf(sql, classes), span));
}

function* movementsOf(rows: Told[], names: Map<string, Named>, span: Span): Generator<[billingId: string, Movement]> {
  for (const [id, kind, each, days] of rows) {
    const told = (atMs: string, name: string, micros: string): Movement => {
      return { day: dayIn(span, Number(atMs)), kind, name, balance: 'expired', micros: Number(micros) };
    };
    for (const [atMs, number, micros] of each) {
      const { name = '', grantId } = names.get(`${id} ${number}`) ?? {};
      yield [id, { ...told(atMs, name, micros), ...(grantId && { grantId }) }];
    }
    for (const [atMs, micros, events] of days) yield [id, { ...told(atMs, MERGED, micros), events: Number(events) }];
  }
}

/** What of some records expired in a span, by record. */
export async function sumExpired(
  { sql, books }: Stores,
  { workspaceId, ids }: Records,
  span: Span,
): Promise<Map<string, number>> {
  const accounts = await withClasses(sql, ids, span.endMs);
  if (accounts.length === 0) return new Map();
  const rows = await ask<[id: string, expired: string]>(
    books,
    `select billing_id, sum(arraySum(classes.4)) from usage_events final where ${MAY_EXPIRE} group by billing_id`,
    await paramsOf(sql, { workspaceId, ids: accounts }, span),
  );
  return new Map(rows.map(([id, expired]) => [id, Number(expired)]));
}

// No line is dated later.
const LAST_MS = Date.UTC(2100, 0);

/** What of some records had expired by the end of a span, by all that is known of it now, by record. */
export async function readExpiredUntil(
  stores: Stores,
  { workspaceId, ids }: Records,
  span: Span,
): Promise<Map<string, number>> {
  const accounts = await withClasses(stores.sql, ids, span.endMs);
  const records = accounts.map((id) => ({ id, workspaceId }));
  const booked = await readBooked(stores, records);
  const expiredOf = (id: string) => [...booked.get(id)!.classes.values()].map(({ expiredMicros }) => expiredMicros);
  const until = new Map(accounts.map((id) => [id, sum(expiredOf(id))]));
  const later = await sumExpired(
    stores,
    { workspaceId, ids: accounts },
    { ...span, startMs: span.endMs, endMs: LAST_MS },
  );
  for (const [id, micros] of later) until.set(id, (until.get(id) ?? 0) - micros);
  return until;
}

// An adjustment may be booked on a day before its time.
const MAY_EXPIRE = `workspace_id = {workspaceId:String} and billing_id in {accounts:Array(String)} and notEmpty(classes)
  and (day >= toDate(fromUnixTimestamp64Milli({startMs:Int64}, 'UTC')) and day <= toDate(fromUnixTimestamp64Milli({endMs:Int64}, 'UTC'))
    or day in {adjustedDays:Array(Date)})
  and time >= fromUnixTimestamp64Milli({startMs:Int64}) and time < fromUnixTimestamp64Milli({endMs:Int64})`;

async function paramsOf(sql: Query, { workspaceId, ids }: Records, { startMs, endMs, starts }: Span) {
  const rows = await sql<{ day: string }[]>`
    select distinct day::text from adjustments
    where billing_id = any(${eachOf(sql, ids)}) and (amount_micros < 0 or grant_id is not null)`;
  return { workspaceId, accounts: ids, startMs, endMs, starts, adjustedDays: rows.map(({ day }) => day) };
}

/** What lines of a record tell of a kind, each alone or, of very many, by day. */
type Told = [
  id: string,
  kind: 'expired' | 'voided',
  each: [atMs: string, number: number, micros: string][],
  days: [atMs: string, micros: string, events: string][],
];

/** Reads what lines let expire. There is no end of them. */
async function readTold(books: Books, params: Awaited<ReturnType<typeof paramsOf>>): Promise<Told[]> {
  return ask<Told>(
    books,
    `
      with arraySort(groupArray(${MOST_OF_A_KIND})((epoch, seq, place, at_ms, told.1, told.4))) as each,
           sumMap([at_ms], [told.4], [toUInt64(1)]) as days
      select billing_id, if(kind = 'adjustment' and cost_micros = 0, 'voided', 'expired') as told_as,
             if(count() <= ${MOST_OF_A_KIND}, arrayMap(one -> (one.4, one.5, one.6), each), []),
             if(count() > ${MOST_OF_A_KIND}, arrayZip(days.1, days.2, days.3), [])
      from (
        select billing_id, kind, cost_micros, epoch, seq, roundDown(toUnixTimestamp64Milli(time), {starts:Array(Int64)}) as at_ms,
               arrayFilter(change -> change.4 > 0, classes) as expiries
        from usage_events final
        where ${MAY_EXPIRE})
      array join expiries as told, arrayEnumerate(expiries) as place
      group by billing_id, told_as`,
    params,
  );
}

/** Only these can have credits that expire. */
async function withClasses(sql: Query, ids: string[], endMs: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from billing_records
    where id = any(${eachOf(sql, ids)}) and has_classes and created_at < to_timestamp(${endMs}::float8 / 1000)`;
  return rows.map(({ id }) => id);
}

type OfClass = { id: string; number: number };
type Named = { name: string; grantId: string | null };

/** The names of grants that were voided, and of classes whose grants have one name; by record and number. */
async function namesOf(sql: Query, classes: OfClass[]): Promise<Map<string, Named>> {
  if (classes.length === 0) return new Map();
  const rows = await sql<(Named & { billingId: string; number: number })[]>`
    with asked as (
      select distinct billing_id, number
      from unnest(${classes.map(({ id }) => id)}::text[], ${classes.map(({ number }) => number)}::int[]) as asked (billing_id, number))
    select asked.billing_id, asked.number, case when one.least = one.greatest then one.least else '' end as name,
           case when one.grants = 1 then one.id end as grant_id
    from asked cross join lateral (
      select min(name) as least, max(name) as greatest, count(*) as grants, min(id) as id from (
        (select coalesce(g.name, '') as name, g.id from grant_classes c join grants g on g.billing_id = c.billing_id and g.class = c.ref
         where c.billing_id = asked.billing_id and c.number = asked.number limit 100)
        union all
        (select coalesce(g.name, ''), g.id from grants g
         where g.billing_id = asked.billing_id and g.void_number = asked.number)) g) one
    where one.grants > 0`;
  return new Map(rows.map((row) => [`${row.billingId} ${row.number}`, row]));
}
