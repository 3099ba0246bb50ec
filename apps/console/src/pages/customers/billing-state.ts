import { parseSignedCredits } from '../../../../../shared/values/credits.ts';
import type { Output } from '../../data/call.ts';
import type { Standing } from '../../parts/text.tsx';

export type Billing = Output<'get /api/v1/customer-billing/{bid}'>['billing'];

// From which part of its credits or its cap on a customer is near their end, as alerts have it where nobody says.
const NEAR = 0.8;

/** Whether a customer's calls are paid for, and for how long still. */
export function billingState({ spendCap, allowOverages, ...amounts }: Billing): Standing {
  const [left, used] = [microsIn(amounts.availableCredits), microsIn(amounts.usedCredits)];
  const cap = spendCap === undefined ? Infinity : microsIn(spendCap);
  if (used >= cap) return ['bad', 'Cap reached'];
  if (used >= NEAR * cap) return ['low', 'Near cap', `${amounts.usedCredits} used of at most ${spendCap}`];
  if (left < 0) return [allowOverages ? 'low' : 'bad', 'Overdrawn'];
  if (left === 0) return [allowOverages ? 'low' : 'bad', allowOverages ? 'Used up' : 'Out of credits'];
  const had = left + used + microsIn(amounts.heldCredits);
  return left <= (1 - NEAR) * had ? ['low', 'Low'] : ['good', 'In credit'];
}

/** Credits as millionths, of which a number holds each exactly. */
export function microsIn(credits: string): number {
  return parseSignedCredits(credits)!;
}
