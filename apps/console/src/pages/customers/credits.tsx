import { microsIn, textOf } from '../../data/amounts.ts';
import type { Output } from '../../data/call.ts';
import { Amount, Legend, State, type Standing } from '../../parts/text.tsx';
import type { Grant } from './grants.tsx';

export type Billing = Output<'get /api/v1/customer-billing/{bid}'>['billing'];

/** Credits of one kind; `drawn`: how much of the bar they take, if that is not their amount. */
type BarPart = { name: string; amount: string; fill: string; drawn?: string };

const stripes = (degrees: number, colour: number, px: number) =>
  `repeating-linear-gradient(${degrees}deg, var(--chart-${colour}) 0 ${px}px, var(--stripe) ${px}px ${px + 2}px)`;
// What is left is told apart by grant: each has a colour and a pattern of its own.
const lefts = ['var(--chart-2)', stripes(45, 0, 4), stripes(90, 5, 3), stripes(-45, 3, 2)];

/** What a record has available, and its credits by grant and by what became of them. */
export function Credits({ billing, grants }: { billing: Billing; grants: readonly Grant[] }) {
  const parts = partsOf(billing, leftByGrant(billing, grants));
  return (
    <>
      <p class="big">
        <Amount of={billing.availableCredits} /> <small>credits available</small> <State of={billingState(billing)} />
      </p>
      <figure class="bar" aria-label="Credits of the record">
        <DrawnBar parts={parts} />
        <Legend of={parts.filter(({ amount }) => microsIn(amount) > 0n)} />
      </figure>
    </>
  );
}

/** A record's credits as a bar alone, for a table that has the amounts beside it. */
export function CreditsBar({ of }: { of: Billing }) {
  const left = of.availableCredits.startsWith('-') ? '0' : of.availableCredits;
  return <DrawnBar parts={partsOf(of, [{ name: 'left', amount: left, fill: lefts[0]! }])} />;
}

/** Whether a record's calls are paid for. One that may be overdrawn is no trouble before its spend cap. */
export function billingState({ availableCredits, usedCredits, allowOverages, spendCap }: Billing): Standing {
  const left = microsIn(availableCredits);
  if (spendCap !== undefined && microsIn(usedCredits) >= microsIn(spendCap)) return ['bad', 'Cap reached'];
  if (left > 0n) return ['good', 'In credit'];
  if (left < 0n) return [allowOverages ? 'idle' : 'bad', 'Overdrawn'];
  return allowOverages ? ['idle', 'Used up'] : ['bad', 'Exhausted'];
}

// What is overdrawn was used or is held: each credit stands in the bar once.
function partsOf({ availableCredits, ...billing }: Billing, left: readonly BarPart[]): BarPart[] {
  const isOver = availableCredits.startsWith('-');
  const over = isOver ? availableCredits.slice(1) : '0';
  const paid = microsIn(billing.usedCredits) - microsIn(over);
  return [
    ...left,
    { name: isOver ? 'held' : 'of it held', amount: billing.heldCredits, fill: 'var(--chart-1)' },
    { name: isOver ? 'used of the credits' : 'used', amount: textOf(paid > 0n ? paid : 0n), fill: 'var(--chart-6)' },
    { name: 'expired', amount: billing.expiredCredits, fill: 'var(--chart-7)' },
    { name: 'overdrawn', amount: over, fill: billing.allowOverages ? 'var(--chart-3)' : 'var(--bad)' },
  ];
}

// The first grants by name, in the order of the api; the others as one. What is held is left of a grant, and drawn beside it.
function leftByGrant({ heldCredits }: Billing, grants: readonly Grant[]): BarPart[] {
  const left = grants.filter(({ state, remainingCredits }) => state === 'ACTIVE' && microsIn(remainingCredits) > 0n);
  const named = left.length > lefts.length ? left.slice(0, lefts.length - 1) : left;
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
    return { name, amount, fill: lefts[i]!, drawn: textOf(all - taken) };
  });
}

/** The bar without its numbers, which stand beside it. Only the drawing rounds. */
function DrawnBar({ parts }: { parts: readonly BarPart[] }) {
  return (
    <div class="drawn" aria-hidden="true">
      {parts.map(({ fill, amount, drawn = amount }, i) => {
        const share = Number(drawn);
        return share > 0 && <span key={i} style={{ flexGrow: share, background: fill }} />;
      })}
    </div>
  );
}
