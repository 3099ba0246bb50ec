import { ask, type Records } from './ask.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { byRecord, MERGED, MOST_OF_A_KIND, type Movement } from './movements.ts';
import { dayIn, type Span } from './span.ts';

/** What expired of some records in a span, by record, and after the last turn of it; a record that did not turn has none. */
export type Expired = { movements: Map<string, Movement[]>; last: Map<string, number> };

type Stores = { sql: Query; books: Books };

/** Reads what turns of accounts tell: what grants that ended, rolled over or were voided did not give, and what was given back of them. */
export async function readExpired({ sql, books }: Stores, { workspaceId, ids }: Records, span: Span): Promise<Expired> {
  const accounts = await withClasses(sql, ids, span.endMs);
  if (accounts.length === 0 || span.endMs <= span.startMs) return { movements: new Map(), last: new Map() };
  const rows = await readTold(books, { workspaceId, ids: accounts }, span);
  const refs = new Map<string, Ref>();
  for (const [id, , , each] of rows) for (const [, ref] of each) refs.set(`${id} ${ref}`, { id, ref });
  const names = await namesOf(sql, [...refs.values()]);
  return {
    movements: byRecord(movementsOf(rows, names, span)),
    // Of a record the row with its last turn is the last one.
    last: new Map(rows.map(([id, , expired]) => [id, Number(expired)])),
  };
}

function* movementsOf(rows: Told[], names: Map<string, Named>, span: Span): Generator<[billingId: string, Movement]> {
  for (const [id, kind, , each, days] of rows) {
    const told = (atMs: string, name: string, micros: string): Movement => {
      return { day: dayIn(span, Number(atMs)), kind, name, balance: 'expired', micros: Number(micros) };
    };
    for (const [atMs, ref, micros] of each) {
      const { name = '', grantId } = names.get(`${id} ${ref}`) ?? {};
      yield [id, { ...told(atMs, name, micros), ...(grantId && { grantId }) }];
    }
    for (const [atMs, micros, events] of days) yield [id, { ...told(atMs, MERGED, micros), events: Number(events) }];
  }
}

/** What of some records had expired after their last turn in a span, by record. */
export async function expiredBefore(
  { sql, books }: Stores,
  { workspaceId, ids }: Records,
  span: Span,
): Promise<Map<string, number>> {
  const accounts = await withClasses(sql, ids, span.endMs);
  if (accounts.length === 0) return new Map();
  const rows = await ask<[id: string, expired: string]>(
    books,
    `
      select billing_id, argMax(splitByChar('\\0', detail, 3)[3], (epoch, seq)) from usage_events
      where ${ARE_TURNS}
      group by billing_id`,
    { workspaceId, accounts, startMs: span.startMs, endMs: span.endMs },
  );
  return new Map(rows.map(([id, expired]) => [id, Number(expired)]));
}

// Turns have no key, so of a record's day one block of rows is read.
const ARE_TURNS = `workspace_id = {workspaceId:String} and billing_id in {accounts:Array(String)} and key_id = '' and kind = 'turn'
  and day >= toDate(fromUnixTimestamp64Milli({startMs:Int64}, 'UTC')) and day <= toDate(fromUnixTimestamp64Milli({endMs:Int64}, 'UTC'))
  and time >= fromUnixTimestamp64Milli({startMs:Int64}) and time < fromUnixTimestamp64Milli({endMs:Int64})`;

/** What turns of a record tell of a kind, each alone or, of very many, by day; and what had expired after the last of these turns. */
type Told = [
  id: string,
  kind: 'expired' | 'voided',
  expired: string,
  each: [atMs: string, ref: string, micros: string][],
  days: [atMs: string, micros: string, events: string][],
];

/** Reads what the scripts tell of moments that adds to what has expired (account.lua, turns.lua). There is no end of turns. */
async function readTold(
  books: Books,
  { workspaceId, ids }: Records,
  { startMs, endMs, starts }: Span,
): Promise<Told[]> {
  return ask<Told>(
    books,
    `
      with arraySort(groupArrayIf(${MOST_OF_A_KIND})((epoch, seq, place, at_ms, told.2, told.3), told_as != '')) as each,
           sumMapIf([at_ms], [told.3], [toUInt64(1)], told_as != '') as days
      select billing_id, told.1 as told_as, argMax(expired, (epoch, seq)),
             if(count() <= ${MOST_OF_A_KIND}, arrayMap(one -> (one.4, one.5, one.6), each), []),
             if(count() > ${MOST_OF_A_KIND}, arrayZip(days.1, days.2, days.3), [])
      from (
        select billing_id, epoch, seq, roundDown(toUnixTimestamp64Milli(time), {starts:Array(Int64)}) as at_ms,
               splitByChar('\\0', detail, 4) as parts, parts[3] as expired,
               arrayMap(line -> splitByChar(' ', line), splitByChar('\\n', parts[4])) as lines,
               arrayFilter(words -> words[1] in ('left', 'rolled', 'expired', 'returned'), lines) as expiries,
               arrayFilter(one -> one.3 != 0, arrayMap(words -> (
                 if(words[1] = 'left' and position(words[2], '/') > 0, 'voided', 'expired'),
                 words[2],
                 toInt64(words[if(words[1] = 'left', 4, 3)])), expiries)) as all_told
        from usage_events final
        where ${ARE_TURNS})
      -- Left: a turn that tells nothing of it has the rest of its line, too.
      left array join all_told as told, arrayEnumerate(all_told) as place
      group by billing_id, told_as
      order by max((epoch, seq))`,
    { workspaceId, accounts: ids, startMs, endMs, starts },
  );
}

/** Only these can have credits that expire. */
async function withClasses(sql: Query, ids: string[], endMs: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from billing_records
    where id = any(${eachOf(sql, ids)}) and has_classes and created_at < to_timestamp(${endMs}::float8 / 1000)`;
  return rows.map(({ id }) => id);
}

type Ref = { id: string; ref: string };
type Named = { name: string; grantId: string | null };

/** The names of grants that were voided (`<class>/<grant>`), and of classes whose grants have one name; by record and ref. */
async function namesOf(sql: Query, refs: Ref[]): Promise<Map<string, Named>> {
  if (refs.length === 0) return new Map();
  const rows = await sql<(Named & { billingId: string; ref: string })[]>`
    with asked as (
      select distinct billing_id, ref
      from unnest(${refs.map(({ id }) => id)}::text[], ${refs.map(({ ref }) => ref)}::text[]) as asked (billing_id, ref))
    select asked.billing_id, asked.ref, case when one.least = one.greatest then one.least else '' end as name,
           case when one.grants = 1 then one.id end as grant_id
    from asked cross join lateral (
      select min(name) as least, max(name) as greatest, count(*) as grants, min(id) as id from (
        (select coalesce(g.name, '') as name, g.id from grants g
         where g.billing_id = asked.billing_id and g.class = asked.ref limit 100)
        union all
        (select coalesce(g.name, ''), g.id from grants g
         where g.id = split_part(asked.ref, '/', 2) and g.billing_id = asked.billing_id)) g) one
    where one.grants > 0`;
  return new Map(rows.map((row) => [`${row.billingId} ${row.ref}`, row]));
}
