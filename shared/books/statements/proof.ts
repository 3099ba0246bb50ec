import { formatCredits } from '../../values/credits.ts';
import type { Reconciliation } from '../reconciling/reconcile.ts';

/**
 * Whether the books of a record are proved: they have all that Redis debited, or lack events that are on their way, or differ.
 */
export type Proof = {
  status: 'EXACT' | 'PENDING' | 'DIFFERENT';
  /** Events that are on their way, as far as they are known by their numbers. */
  pendingEvents?: number;
  /** What differs, and by how many credits. */
  differences?: { what: string; credits: string }[];
};

/** A proof by what reconciling found; `lastAdjustment` is the number of the last one in Postgres. */
export function proofOf(found: Reconciliation | undefined, lastAdjustment: number): Proof {
  // It is not in force yet, or its balance waits to be settled.
  if (!found) return { status: 'PENDING', pendingEvents: 0 };
  const adjustmentsToCome = Math.max(0, lastAdjustment - found.lastAdjustment);
  const missing = found.missing.reduce((sum, { events }) => sum + events, 0);
  if (found.status === 'ON_ITS_WAY' || (found.status === 'EXACT' && adjustmentsToCome > 0))
    return { status: 'PENDING', pendingEvents: missing + adjustmentsToCome };
  if (found.status === 'EXACT') return { status: 'EXACT' };
  return { status: 'DIFFERENT', differences: differencesOf(found) };
}

/** A proof with one more difference. */
export function withDifference(proof: Proof, what: string, micros: number): Proof {
  if (micros === 0 || proof.status === 'PENDING') return proof;
  const differences = [...(proof.differences ?? []), { what, credits: formatCredits(micros) }];
  return { status: 'DIFFERENT', differences };
}

function differencesOf({ differenceMicros, heldDifferenceMicros, grants, status, missing }: Reconciliation) {
  const numbers = missing.reduce((sum, { events }) => sum + events, 0);
  const all = [
    { what: 'used credits that the books lack', micros: differenceMicros },
    { what: 'held credits that the books lack', micros: heldDifferenceMicros },
    { what: 'credits that the account lacks of its grants', micros: grants?.differenceMicros ?? 0 },
  ];
  const known = all.filter(({ micros }) => micros !== 0);
  if (known.length === 0) return [{ what: `events by their numbers (${status}, ${numbers})`, credits: '0' }];
  return known.map(({ what, micros }) => ({ what, credits: formatCredits(micros) }));
}
