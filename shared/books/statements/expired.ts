import { readRows, type Books } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { readBooked, sum, type ClassSums } from '../sums/booked.ts';
import { byRecord, MERGED, MOST_OF_A_KIND, type Movement, type Records } from './movements.ts';
import { dayIn, type Span } from './span.ts';

/**
 * What lines let expire in a span and before it; what all of them did by its end, where that is known now; and what they did to each
 * class until now; by record.
 */
export type Expired = {
  movements: Map<string, Movement[]>;
  before: Map<string, number>;
  until: Map<string, number>;
  classes: Map<string, Map<number, ClassSums>>;
};

// No line is dated later.
const LAST_MS = Date.UTC(2100, 0);

/**
 * Reads what lines let expire of classes: what was left of grants that ended, rolled over or were voided, and what was given back of them;
 * less what had expired before Redis heard of a void. `sinceMs` is where the last closed month ended; 0: none is.
 */
export async function readExpired(
  stores: { sql: Query; books: Books },
  { workspaceId, ids }: Records,
  span: Span,
  sinceMs: number,
): Promise<Expired> {
  const { sql, books } = stores;
  const accounts = await withClasses(sql, ids, span.endMs);
  if (accounts.length === 0) return { movements: new Map(), before: new Map(), until: new Map(), classes: new Map() };
  const records = accounts.map((id) => ({ id, workspaceId }));
  const booked = await readBooked(stores, records);
  const adjusted = await sql<{ day: string }[]>`
    select distinct day::text from adjustments
    where billing_id = any(${eachOf(sql, accounts)}) and (amount_micros < 0 or grant_id is not null)`;
  const { startMs, endMs, starts } = span;
  const adjustedDays = adjusted.map(({ day }) => day);
  const asked = { workspaceId, accounts, starts, startMs, endMs, sinceMs, lastMs: LAST_MS, adjustedDays };
  const rows = await readRows<Told>(books, TOLD, asked);
  const sums = (of: 'before' | 'after') =>
    new Map(rows.flatMap(([id, as, micros]) => (as === of ? [[id, Number(micros)] as const] : [])));
  const after = sums('after');
  const allOf = (id: string, of = booked) =>
    sum([...of.get(id)!.classes.values()].map(({ expiredMicros }) => expiredMicros));
  // Where more came meanwhile, one has it and the other may not: then the next statement says what is late.
  const again = sinceMs > 0 ? await readBooked(stores, records) : undefined;
  const known = accounts.filter((id) => again && allOf(id, again) === allOf(id));
  const classes = rows.flatMap(([id, , , each]) => each.map(([, number]) => ({ id, number })));
  return {
    movements: byRecord(movementsOf(rows, await namesOf(sql, classes), span)),
    before: sums('before'),
    until: new Map(known.map((id) => [id, allOf(id) - (after.get(id) ?? 0)])),
    classes: new Map(accounts.map((id) => [id, booked.get(id)!.classes])),
  };
}

function* movementsOf(rows: Told[], names: Map<string, Named>, span: Span): Generator<[billingId: string, Movement]> {
  for (const [id, kind, , each, days] of rows) {
    if (kind !== 'expired' && kind !== 'voided') continue;
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

/** What lines of a record tell of a kind, each alone or, of very many, by day; or in all before or after the span. */
type Told = [
  id: string,
  as: 'before' | 'after' | 'expired' | 'voided',
  micros: string,
  each: [atMs: string, number: number, micros: string][],
  days: [atMs: string, micros: string, events: string][],
];

// There is no end of these lines. An adjustment may be booked on a day before its time.
const TOLD = `
  with arraySort(groupArray(${MOST_OF_A_KIND})((epoch, seq, place, start_ms, told.1, told.4))) as each,
       sumMap([start_ms], [told.4], [toUInt64(1)]) as days
  select billing_id,
    multiIf(at_ms < {startMs:Int64}, 'before', at_ms >= {endMs:Int64}, 'after',
            kind = 'adjustment' and cost_micros = 0 and told.4 > 0, 'voided', 'expired') as told_as,
    sum(told.4),
    if(count() <= ${MOST_OF_A_KIND} and told_as in ('expired', 'voided'), arrayMap(one -> (one.4, one.5, one.6), each), []),
    if(count() > ${MOST_OF_A_KIND} and told_as in ('expired', 'voided'), arrayZip(days.1, days.2, days.3), [])
  from (
    select billing_id, kind, cost_micros, epoch, seq, toUnixTimestamp64Milli(time) as at_ms,
      roundDown(at_ms, {starts:Array(Int64)}) as start_ms, arrayFilter(change -> change.4 != 0, classes) as expiries
    from usage_events final
    where workspace_id = {workspaceId:String} and billing_id in {accounts:Array(String)} and notEmpty(classes)
      and (day >= toDate(fromUnixTimestamp64Milli({sinceMs:Int64}, 'UTC')) or day in {adjustedDays:Array(Date)})
      and time >= fromUnixTimestamp64Milli({sinceMs:Int64}) and time < fromUnixTimestamp64Milli({lastMs:Int64}))
  array join expiries as told, arrayEnumerate(expiries) as place
  group by billing_id, told_as`;

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
