import type { Query } from '../../stores/postgres.ts';
import { gaveUntilNow, readAccountState } from '../account-state.ts';
import type { Balance } from '../balances.ts';

/** What an account says of all its grants together, beside what Postgres knows of each. */
export type GrantProof = {
  totalMicros: number;
  /** The sum of all grants that have begun, by Postgres. */
  grantedMicros: number;
  expiredMicros: number;
  /** What of the grants is neither used, nor held, nor left. */
  grantsExpiredMicros: number;
  /** Micro-credits that the account lacks in total, or else in what has expired, or else in what was used; negative: too much. */
  differenceMicros: number;
};

/**
 * Compares accounts with their grants: total, used and expired of an account are the sums of what each grant has. Records that are
 * being changed, of which something is due or not copied, and those whose ended grants keep credits for holds, are left out.
 */
export async function proveGrants(sql: Query, balances: Balance[]): Promise<Map<string, GrantProof>> {
  const asked = balances.filter(({ account, atMs }) => account && account.untilMs > atMs);
  if (asked.length === 0) return new Map();
  const rows = await sql<Known[]>`
    select b.id, b.version, b.last_adjustment, (b.total_micros + b.granted_micros + coalesce(u.micros, 0))::bigint as granted_micros,
           (coalesce(c.used, 0) + coalesce(v.used, 0))::bigint as used_micros,
           (coalesce(c.held, 0) + coalesce(v.held, 0))::bigint as held_micros,
           coalesce(c.untold, false) or coalesce(v.untold, false) as untold
    from unnest(${asked.map(({ billing }) => billing.id)}::text[], ${asked.map(({ atMs }) => atMs)}::bigint[]) as r (id, at)
    join billing_records b on b.id = r.id
    cross join lateral (
      select sum(amount_micros) as micros from grants
      where billing_id = b.id and before_micros is null and voided_at is null and begins_at <= r.at) u
    cross join lateral (
      select sum(used_micros) as used, sum(held_micros) as held, bool_or(told_turn is null) as untold from grant_classes
      where billing_id = b.id and ends_at is not null and coalesce(rolls_until, ends_at) <= r.at) c
    cross join lateral (
      select sum(used_micros) as used, sum(held_micros) as held, bool_or(told_turn is null) as untold from grants
      where billing_id = b.id and voided_at is not null and before_micros is not null) v`;
  const known = new Map(rows.map((row) => [row.id, row]));
  return new Map(
    asked.flatMap((balance): [string, GrantProof][] => {
      const row = known.get(balance.billing.id);
      const proof = row && prove(balance, row);
      return proof ? [[balance.billing.id, proof]] : [];
    }),
  );
}

type Known = {
  id: string;
  version: number;
  lastAdjustment: number;
  grantedMicros: number;
  usedMicros: number;
  heldMicros: number;
  untold: boolean;
};

function prove(balance: Balance, row: Known): GrantProof | undefined {
  const state = readAccountState(balance.account!.state);
  const isSettled = state.version === row.version && balance.adjustment === row.lastAdjustment && !row.untold;
  if (!isSettled || row.heldMicros > 0 || state.pinnedMicros > 0) return undefined;
  const { usedMicros, totalMicros = 0, expiredMicros = 0 } = balance;
  const gave = gaveUntilNow(state, usedMicros);
  const given = sum(state.classes.map(({ ref, gaveMicros }) => gave.get(ref)! - gaveMicros));
  const overdrawn = state.overdrawnMicros + usedMicros - state.usedAtTurn - given;
  // What was given back of grants that the account has forgotten was theirs, and has expired.
  const endedUsed = row.usedMicros - state.returnedMicros;
  const open = sum(state.classes.map(({ grantedMicros }) => grantedMicros));
  const grantsUsed = sum([...gave.values()]) + endedUsed + overdrawn;
  const grantsExpiredMicros = row.grantedMicros - open - endedUsed;
  const differenceMicros =
    row.grantedMicros - totalMicros || grantsExpiredMicros - expiredMicros || grantsUsed - usedMicros;
  return { totalMicros, grantedMicros: row.grantedMicros, expiredMicros, grantsExpiredMicros, differenceMicros };
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
