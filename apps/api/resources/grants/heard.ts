import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';

// Redis may begin a grant before it hears that it was voided. It tells by sums: the account then has more of the class than its
// settings declare. So what Redis has yet to hear of a record are such voids or added credits, never both.

/** Throws while Redis has yet to hear of the void of a grant to come: no credits are added to the record until then. */
export async function requireVoidsHeard(sql: Query, { id }: { id: string }): Promise<void> {
  const unheard = await sql`
    select from changes c join adjustments a on a.id = c.entity_id
    where a.billing_id = ${id} and a.before_micros < 0 and c.applied_at is null`;
  if (unheard.length > 0) throw notYet();
}

/** Throws while Redis has yet to hear of what may have added credits: no grant to come is voided until then. Voids add none. */
export async function requireCreditsHeard(sql: Query, { id }: { id: string }): Promise<void> {
  const unheard = await sql`
    select from changes c
    where c.entity_id = ${id} and c.applied_at is null
      and not exists (select from changes v where v.tx = c.tx and v.kind = 'adjustment')`;
  if (unheard.length > 0) throw notYet();
}

function notYet(): ApiError {
  const message =
    'An earlier change of the billing record is not in force yet, and nothing was stored; repeat the request in a moment.';
  return new ApiError('redis_unavailable', { message });
}
