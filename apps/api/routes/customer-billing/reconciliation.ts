import { Type } from 'typebox';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { MAX_GAPS, type MissingNumbers } from '../../../../shared/books/reconciling/missing-numbers.ts';
import { reconcile } from '../../../../shared/books/reconciling/reconcile.ts';
import { id, named, object, signedCredits, whole } from '../../../../shared/contract/schema-kinds.ts';
import { requireBilling } from '../../resources/billings/billings.ts';
import { route } from '../../http/route.ts';
import { present } from '../../resources/rows.ts';

const end = named(
  'EventPosition',
  object({
    epoch: whole("the epoch of the record's shard, which grows each time the shard opens", 7),
    number: whole('the number of the event in its epoch', 4211),
    eventId: Type.Optional(id('event', ' in the books')),
  }),
);
const gap = named(
  'EventGap',
  object({
    after: end,
    before: Type.Optional(end),
    events: whole('how many numbers are missing', 2),
    credits: Type.Optional(signedCredits('their cost, by the balances before and after them')),
  }),
);

const grantProof = named(
  'GrantProof',
  object({
    totalCredits: signedCredits('totalCredits as Redis counts them'),
    grantedCredits: signedCredits('the sum of all grants that have begun'),
    expiredCredits: signedCredits('expiredCredits as Redis counts them'),
    grantsExpiredCredits: signedCredits('what of the grants is neither used, nor held, nor left'),
    difference: signedCredits('credits that the balance lacks in one of them, or in what its grants gave'),
  }),
);

const reconciliation = named(
  'Reconciliation',
  object({
    billingId: id('billing record'),
    status: Type.Enum(['EXACT', 'MISSING', 'TOO_MUCH', 'ON_ITS_WAY'], {
      examples: ['EXACT'],
      description: 'whether the books contain all usage, less, or more; or events are still on their way to them',
    }),
    usedCredits: signedCredits('used credits as Redis debits them'),
    bookedCredits: signedCredits('the sum of all distinct events in the books'),
    billedCredits: signedCredits('what the daily usage of these events adds up to'),
    lastBalance: signedCredits('used credits after the last event in the books'),
    difference: signedCredits('used credits missing in the books, or else in the daily usage; negative: too much'),
    heldCredits: signedCredits('reserved credits as Redis counts them'),
    bookedHeldCredits: signedCredits('what the events in the books add up to'),
    heldDifference: signedCredits('reserved credits missing in the books; negative: too much'),
    grants: Type.Optional(grantProof),
    gaps: Type.Array(gap, { maxItems: MAX_GAPS, description: 'where events are missing' }),
    losses: Type.Array(gap, {
      maxItems: MAX_GAPS,
      description: 'usage that was lost with a Redis server, and is neither debited nor booked',
    }),
  }),
);

// The share of the time left for which it waits for events that are on their way.
const PATIENCE_SHARE = 0.5;

export const reconcileBilling = route('get', '/api/v1/customer-billing/{bid}/reconciliation', {
  summary: 'Prove the books of a billing record: compare its balance with its events',
  description:
    'Compares the used and reserved credits of the balance with the sums of its events, and says which events are missing, if any. Of a record with grants it compares total, used and expired with the sums of its grants, unless it is being changed.',
  permission: 'billing:read',
  response: object({ reconciliation }),
  errors: ['redis_unavailable', 'usage_unavailable'],

  async handle({ sql, params, caller, redis, books, leftMs }) {
    const record = await requireBilling(sql, caller, params.bid);
    const [found] = await reconcile({ sql, redis, books }, [record], PATIENCE_SHARE * leftMs());
    // The record is not in force yet.
    if (!found) throw new ApiError('redis_unavailable');
    const { grants, missing, losses, lastMicros: lastBalanceMicros } = found;
    return {
      reconciliation: present(reconciliation, {
        ...found,
        billingId: record.id,
        lastBalanceMicros,
        grants: grants && present(grantProof, grants),
        gaps: missing.map(presentGap),
        losses: losses.map(presentGap),
      }),
    };
  },
});

function presentGap({ epoch, afterSequence, afterEvent, beforeSequence, beforeEvent, events, micros }: MissingNumbers) {
  return {
    after: { epoch, number: afterSequence, ...(afterEvent !== undefined && { eventId: afterEvent }) },
    ...(beforeSequence !== undefined && {
      before: { epoch, number: beforeSequence, ...(beforeEvent !== undefined && { eventId: beforeEvent }) },
    }),
    events,
    ...(micros !== undefined && { credits: formatCredits(micros) }),
  };
}
