import type { Query } from '../../stores/postgres.ts';
import type { Balance } from '../balances.ts';
import { readLateVoids, takenOf, type LateVoid } from '../late-voids.ts';
import { sum, type BookedRecord } from '../sums/booked.ts';

/** What an account says of all its grants together, beside what Postgres and the books know of each. */
export type GrantProof = {
  totalMicros: number;
  /** The sum of all grants that have begun, by Postgres. */
  grantedMicros: number;
  expiredMicros: number;
  /** What of the grants has expired by the lines of their classes. */
  grantsExpiredMicros: number;
  /** Micro-credits that the account lacks in total, or else in what has expired, or else in a class; negative: too much. */
  differenceMicros: number;
};

/**
 * Compares accounts with their grants and the lines of the books: what was granted of a class, less what was used, held and expired by
 * lines, is left of it. Records that are being changed, and those of which something is due, are left out.
 */
export async function proveGrants(
  sql: Query,
  compared: { balance: Balance; booked: BookedRecord }[],
): Promise<Map<string, GrantProof>> {
  const asked = compared.filter(({ balance: { account, atMs } }) => account && account.untilMs > atMs);
  if (asked.length === 0) return new Map();
  const ids = asked.map(({ balance }) => balance.billing.id);
  // Before the records: one that changes meanwhile is left out.
  const voids = await readLateVoids(sql, ids);
  const rows = await sql<Known[]>`
    select b.id, b.version, b.last_adjustment, (b.total_micros + b.granted_micros + coalesce(u.micros, 0))::bigint as granted_micros
    from unnest(${ids}::text[], ${asked.map(({ balance }) => balance.atMs)}::bigint[]) as r (id, at)
    join billing_records b on b.id = r.id
    cross join lateral (
      select sum(amount_micros) as micros from grants
      where billing_id = b.id and before_micros is null and voided_at is null and begins_at <= r.at) u`;
  const known = new Map(rows.map((row) => [row.id, row]));
  return new Map(
    asked.flatMap(({ balance, booked }): [string, GrantProof][] => {
      const row = known.get(balance.billing.id);
      const proof = row && prove(balance, booked, row, voids.get(row.id));
      return proof ? [[balance.billing.id, proof]] : [];
    }),
  );
}

type Known = { id: string; version: number; lastAdjustment: number; grantedMicros: number };

function prove(
  balance: Balance,
  { classes }: BookedRecord,
  row: Known,
  voids: LateVoid[] = [],
): GrantProof | undefined {
  const { state } = balance.account!;
  if (state.version !== row.version || balance.adjustment !== row.lastAdjustment) return undefined;
  const { totalMicros = 0, expiredMicros = 0 } = balance;
  const taken = (number: number) => takenOf(classes, number);
  const grantedMicros = row.grantedMicros + sum(voids.map(({ number }) => taken(number)));
  const grantsExpiredMicros = sum([...classes.values()].map((one) => one.expiredMicros));
  const leftMicros = sum(state.classes.map((one) => one.grantedMicros - one.usedMicros - one.heldMicros));
  const byLines = grantedMicros - sum([...classes.keys()].map(taken));
  const differenceMicros =
    grantedMicros - totalMicros ||
    grantsExpiredMicros - expiredMicros ||
    taken(OVERDRAWN) - state.overdrawnMicros ||
    byLines - (leftMicros - state.overdrawnMicros);
  return { totalMicros, grantedMicros, expiredMicros, grantsExpiredMicros, differenceMicros };
}

const OVERDRAWN = 0;
