import { microsIn, textOf } from '../../data/amounts.ts';
import type { Output } from '../../data/call.ts';
import { Bar, DrawnBar, type BarPart } from '../../parts/bar.tsx';
import { Amount, State } from '../../parts/text.tsx';
import type { Grant } from './grants.tsx';

export type Billing = Output<'get /api/v1/customer-billing/{bid}'>['billing'];

const GRANTS_SHOWN = 3;

/** What a record has available, and its credits by grant and by what became of them. */
export function Credits({ billing, grants }: { billing: Billing; grants: readonly Grant[] }) {
  return (
    <>
      <p class="big">
        <Amount of={billing.availableCredits} /> <small>credits available</small> <BillingState of={billing} />
      </p>
      <Bar label="Credits of the record" parts={partsOf(billing, leftByGrant(billing, grants))} />
    </>
  );
}

/** A record's credits as a bar alone, for a table that has the amounts beside it. */
export function CreditsBar({ of }: { of: Billing }) {
  const left = of.availableCredits.startsWith('-') ? '0' : of.availableCredits;
  return <DrawnBar parts={partsOf(of, [{ name: 'left', amount: left, kind: 'left-0' }])} />;
}

/** Whether a record's calls are paid for. One that may be overdrawn is no trouble before its spend cap. */
export function BillingState({ of }: { of: Billing }) {
  const { availableCredits, usedCredits, allowOverages, spendCap } = of;
  const left = microsIn(availableCredits);
  if (spendCap !== undefined && microsIn(usedCredits) >= microsIn(spendCap))
    return <State kind="bad">Cap reached</State>;
  if (left > 0n) return <State kind="good">In credit</State>;
  if (left < 0n) return <State kind={allowOverages ? 'idle' : 'bad'}>Overdrawn</State>;
  return allowOverages ? <State kind="idle">Used up</State> : <State kind="bad">Exhausted</State>;
}

// What is overdrawn was used or is held: each credit stands in the bar once.
function partsOf({ availableCredits, ...billing }: Billing, left: readonly BarPart[]): BarPart[] {
  const isOver = availableCredits.startsWith('-');
  const over = isOver ? availableCredits.slice(1) : '0';
  const paid = microsIn(billing.usedCredits) - microsIn(over);
  return [
    ...left,
    { name: isOver ? 'held' : 'of it held', amount: billing.heldCredits, kind: 'held' },
    { name: isOver ? 'used of the credits' : 'used', amount: textOf(paid > 0n ? paid : 0n), kind: 'used' },
    { name: 'expired', amount: billing.expiredCredits, kind: 'expired' },
    { name: 'overdrawn', amount: over, kind: billing.allowOverages ? 'owed' : 'over' },
  ];
}

// The first grants by name, in the order of the api; the others as one. What is held is left of a grant, and drawn beside it.
function leftByGrant({ heldCredits }: Billing, grants: readonly Grant[]): BarPart[] {
  const left = grants.filter(({ state, remainingCredits }) => state === 'ACTIVE' && microsIn(remainingCredits) > 0n);
  const named = left.length > GRANTS_SHOWN + 1 ? left.slice(0, GRANTS_SHOWN) : left;
  const others = left.slice(named.length);
  const parts = named.map((one) => ({ name: `left of ${one.name ?? 'credits'}`, amount: one.remainingCredits }));
  if (others.length > 0) {
    const sum = others.reduce((all, one) => all + microsIn(one.remainingCredits), 0n);
    parts.push({ name: `left of ${others.length} other grants`, amount: textOf(sum) });
  }
  let held = microsIn(heldCredits);
  return parts.map(({ name, amount }, i) => {
    const all = microsIn(amount);
    const taken = held < all ? held : all;
    held -= taken;
    return { name, amount, kind: `left-${i as 0 | 1 | 2 | 3}` as const, drawn: textOf(all - taken) };
  });
}
