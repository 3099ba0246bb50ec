import { ask } from './ask.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import type { Movement } from './movements.ts';
import { dayIn, type Span } from './span.ts';
import type { Records } from './usage.ts';

/** What expired of some records in a span, by record, and after the last turn of it; a record that did not turn has none. */
export type Expired = { movements: Map<string, Movement[]>; last: Map<string, number> };

type Stores = { sql: Query; books: Books };

/** Reads what turns of accounts tell: what grants that ended, rolled over or were voided did not give, and what was given back of them. */
export async function readExpired({ sql, books }: Stores, { workspaceId, ids }: Records, span: Span): Promise<Expired> {
  const found: Expired = { movements: new Map(), last: new Map() };
  const accounts = await withClasses(sql, ids, span.endMs);
  if (accounts.length === 0 || span.endMs <= span.startMs) return found;
  type Row = [id: string, timeMs: string, parts: string[], expired: string, told: string];
  const rows = await ask<Row>(
    books,
    `
      select billing_id, toUnixTimestamp64Milli(time), splitByChar('\\0', detail, 5) as parts, parts[3], parts[4]
      from usage_events final
      where ${ARE_TURNS}
      order by billing_id, epoch, seq`,
    { workspaceId, accounts, startMs: span.startMs, endMs: span.endMs },
  );
  const told = rows.map(([id, timeMs, , expired, text]) => ({
    id,
    timeMs,
    expired,
    entries: toldOf(text),
  }));
  const refs = told.flatMap(({ id, entries }) => entries.map(({ ref }) => ({ id, ref })));
  const names = await namesOf(sql, refs);
  for (const { id, timeMs, expired, entries } of told) {
    const day = dayIn(span, Number(timeMs));
    const movements = entries.map(({ what, ref, micros }): Movement => {
      const { name = '', grantId } = names.get(`${id} ${ref}`) ?? {};
      const kind = what === 'left' && ref.includes('/') ? 'voided' : 'expired';
      return { day, kind, name, balance: 'expired', micros, ...(grantId && { grantId }) };
    });
    found.movements.set(id, [...(found.movements.get(id) ?? []), ...movements]);
    found.last.set(id, Number(expired));
  }
  return found;
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

/** What the script tells of a moment that adds to what has expired (account.lua, turns.lua). */
function toldOf(told: string): { what: string; ref: string; micros: number }[] {
  return told.split('\n').flatMap((entry) => {
    const [what = '', ref = '', first, second] = entry.split(' ');
    const isExpiry = what === 'left' || what === 'rolled' || what === 'expired' || what === 'returned';
    const micros = Number(what === 'left' ? second : first);
    return isExpiry && micros !== 0 ? [{ what, ref, micros }] : [];
  });
}

/** Only these can have credits that expire. */
async function withClasses(sql: Query, ids: string[], endMs: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from billing_records
    where id = any(${eachOf(sql, ids)}) and has_classes and created_at < to_timestamp(${endMs}::float8 / 1000)`;
  return rows.map(({ id }) => id);
}

type Named = { name: string; grantId: string | null };

/** The names of grants that were voided (`<class>/<grant>`), and of classes whose grants have one name; by record and ref. */
async function namesOf(sql: Query, refs: { id: string; ref: string }[]): Promise<Map<string, Named>> {
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
