import type { Query } from '../../stores/postgres.ts';
import { PLAIN_NUMBER } from '../../stores/account-settings.ts';
import type { BookedRecord } from '../sums/booked.ts';

// What makes an account again that Redis lost (lua/rebuild.lua).

/** A grant that was voided once it had begun: the class that it became, and the one that it was of. */
export type Void = { billingId: string; number: number; class: number; voidedAtMs: number };

/** Reads the grants of some records that were voided once they had begun, by record. */
export async function readVoids(sql: Query, ids: string[]): Promise<Map<string, Void[]>> {
  const rows = await sql<Void[]>`
    select billing_id, coalesce(void_number, class) as number, class,
           floor(extract(epoch from created_at) * 1000)::bigint as voided_at_ms
    from adjustments where billing_id = any(${ids}) and grant_id is not null and before_micros >= 0`;
  return Map.groupBy(rows, ({ billingId }) => billingId);
}

/** What open holds own of each class, and what puts the lines of others right. */
type Holds = { heldMicros: number; owned: ReadonlyMap<number, number>; costMicros: number };

/** What the script is told of an account, as JSON; empty where the record is plain. */
export function accountInBooks(booked: Pick<BookedRecord, 'classes' | 'lastMs'>, voids: Void[], holds: Holds): string {
  const { classes, lastMs } = booked;
  const { heldMicros, owned, costMicros } = holds;
  const isPlain = [...classes].every(([number, sum]) => number === PLAIN_NUMBER && sum.heldMicros === 0);
  if (heldMicros === 0 && isPlain) return '';
  const ofNumber = new Map(voids.map((one) => [one.number, one]));
  const rest = new Map(owned);
  // Holds give up what was voided of a class first: what they still own is the class's before.
  const sums = [...classes]
    .toSorted(([a], [b]) => a - b)
    .map(([number, sum]) => {
      const { usedMicros: used, heldMicros: byLines, expiredMicros: expired } = sum;
      const { class: from = 0, voidedAtMs = 0 } = ofNumber.get(number) ?? {};
      const of = from || number;
      const held = Math.min(byLines, rest.get(of) ?? 0);
      rest.set(of, (rest.get(of) ?? 0) - held);
      return { number, used, held, lost: byLines - held, expired, from, voidedAtMs };
    });
  return JSON.stringify({ lastMs, costMicros, sums });
}
