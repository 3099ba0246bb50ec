import { eachOf, type Query } from '../stores/postgres.ts';
import type { ClassSums } from './sums/booked.ts';

/** A class that a grant may have become which was voided while it had yet to begin. */
export type LateVoid = { billingId: string; number: number; grantId: string; name: string; beginsAt: number };

/**
 * Reads which classes grants of some records became that were voided while they had yet to begin. Postgres never counts them. Redis does
 * if it had begun them when it heard of the void: then the books have lines of their own class, or of the one that they were of where a
 * rebuild knew none other that began.
 */
export async function readLateVoids(sql: Query, ids: string[]): Promise<Map<string, LateVoid[]>> {
  const rows = await sql<LateVoid[]>`
    select distinct on (g.billing_id, own.number) g.billing_id, own.number, g.id as grant_id, coalesce(g.name, '') as name, g.begins_at
    from adjustments a
    join grants g on g.id = a.grant_id
    left join grant_classes c on c.billing_id = g.billing_id and c.ref = g.class and not exists (
      select from grants o
      where o.billing_id = g.billing_id and o.class = g.class and (o.before_micros is not null or o.voided_at is null))
    cross join unnest(array[a.void_number, c.number]) as own (number)
    where a.billing_id = any(${eachOf(sql, ids)}) and a.grant_id is not null and a.before_micros < 0
      and own.number is not null
    order by g.billing_id, own.number, g.begins_at, g.id`;
  return Map.groupBy(rows, ({ billingId }) => billingId);
}

/** What lines took of a class: of one that has ended all that it had. */
export function takenOf(classes: ReadonlyMap<number, ClassSums> | undefined, number: number): number {
  const { usedMicros = 0, heldMicros = 0, expiredMicros = 0 } = classes?.get(number) ?? {};
  return usedMicros + heldMicros + expiredMicros;
}
