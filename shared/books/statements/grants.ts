import { eachOf, type Query } from '../../stores/postgres.ts';
import { readLateVoids, takenOf } from '../late-voids.ts';
import type { Expired } from './expired.ts';
import { byRecord, MERGED, MOST_OF_A_KIND, type Movement } from './movements.ts';
import { dayIn, type Span } from './span.ts';

/** What some records were granted in a span, by record, and what they had been granted in all at its end. */
export type Granted = { movements: Map<string, Movement[]>; totals: Map<string, number> };

/**
 * Reads grants that began in a span, first credits and refills among them. The total at its end is that of
 * now without what began since, so it costs what is new. What lines did to classes tells of grants that only Redis has begun.
 */
export async function readGranted(
  sql: Query,
  ids: string[],
  span: Span,
  nowMs: number,
  classes: Expired['classes'],
): Promise<Granted> {
  // Before what is counted: none is told twice.
  const late = await readLateVoids(sql, ids);
  const rows = await totalsAndBegun(sql, ids, span, nowMs);
  const begun = rows.filter((row): row is Begun => row.beginsAt !== null);
  const totals = new Map(rows.filter(({ beginsAt }) => beginsAt === null).map((row) => [row.billingId, row.micros]));
  for (const one of [...late.values()].flat()) {
    const micros = takenOf(classes.get(one.billingId), one.number);
    if (micros === 0) continue;
    totals.set(one.billingId, totals.get(one.billingId)! + micros);
    if (one.beginsAt >= span.startMs) begun.push({ ...one, micros, grants: 1 });
  }
  const movements: [billingId: string, movement: Movement][] = [];
  for (const { billingId, grantId, name, micros, beginsAt, grants } of begun) {
    if (beginsAt >= span.endMs) totals.set(billingId, totals.get(billingId)! - micros);
    else {
      const movement: Movement = {
        day: dayIn(span, beginsAt),
        kind: 'granted',
        name: grantId === null ? MERGED : name,
        balance: 'total',
        micros,
        ...(grantId === null ? { events: grants } : { grantId }),
      };
      movements.push([billingId, movement]);
    }
  }
  return { movements: byRecord(movements), totals };
}

/** A grant, or without an id several of a day, or all that began after the span. */
type Begun = {
  billingId: string;
  grantId: string | null;
  name: string;
  micros: number;
  beginsAt: number;
  grants: number;
};
/** What a record has been granted in all by now. */
type Total = Pick<Begun, 'billingId' | 'micros'> & { beginsAt: null };

// By one statement, so that the total has exactly what is told: what is counted, and what has begun and will be.
async function totalsAndBegun(
  sql: Query,
  ids: string[],
  { startMs, endMs, starts }: Span,
  nowMs: number,
): Promise<(Begun | Total)[]> {
  const some = eachOf(sql, ids);
  return sql<(Begun | Total)[]>`
    with begun as (
      select billing_id, id, coalesce(name, '') as name, amount_micros as micros, begins_at
      from grants
      where billing_id = any(${some}) and begins_at >= ${startMs}
        and (before_micros is not null or (begins_at <= ${nowMs} and voided_at is null))
    ), told as (
      select billing_id, name, micros, begins_at, width_bucket(begins_at, ${[...starts, endMs]}::bigint[]) as day,
             case when begins_at < ${endMs}
                    and count(*) filter (where begins_at < ${endMs}) over (partition by billing_id) <= ${MOST_OF_A_KIND}
                  then id end as grant_id
      from begun
    )
    select billing_id, grant_id, min(name) as name, sum(micros)::bigint as micros, min(begins_at) as begins_at, count(*) as grants
    from told group by billing_id, day, grant_id
    union all
    select b.id, null, '', (b.total_micros + b.granted_micros + coalesce(sum(g.amount_micros), 0))::bigint, null, 0
    from billing_records b
    left join grants g on g.billing_id = b.id and g.before_micros is null and g.voided_at is null and g.begins_at <= ${nowMs}
    where b.id = any(${some})
    group by b.id`;
}
