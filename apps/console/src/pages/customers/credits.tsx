import { formatCredits } from '../../../../../shared/values/credits.ts';
import { MOST_ITEMS } from '../../data/hooks.ts';
import { Amount, Legend, State } from '../../parts/text.tsx';
import { billingState, microsIn, type Billing } from './billing-state.ts';
import type { Grant } from './grants.tsx';

/** Credits of one kind, in micro-credits; `drawn`: how much of the bar they take, if that is not their amount. */
type BarPart = { name: string; micros: number; fill: string; drawn?: number };

const stripes = (degrees: number, colour: number, px: number) =>
  `repeating-linear-gradient(${degrees}deg, var(--chart-${colour}) 0 ${px}px, var(--stripe) ${px}px ${px + 2}px)`;
// What is left is told apart by grant: each has a colour and a pattern of its own.
const lefts = ['var(--chart-2)', stripes(45, 0, 4), stripes(90, 5, 3), stripes(-45, 3, 2)];

/** What a customer has available, and its credits by grant and by what became of them. */
export function Credits({ billing, grants }: { billing: Billing; grants: readonly Grant[] }) {
  const parts = partsOf(billing, leftByGrant(billing, grants));
  const told = parts.filter(({ micros }) => micros > 0);
  return (
    <>
      <p class="big">
        <Amount of={billing.availableCredits} /> <small>credits available</small> <State of={billingState(billing)} />
      </p>
      {/* What is left is told by grant: not where there are more of them than were read. */}
      {grants.length < MOST_ITEMS && (
        <figure class="bar" aria-label="Credits of the customer">
          <DrawnBar parts={parts} />
          <Legend of={told.map((one) => ({ ...one, amount: formatCredits(one.micros) }))} />
        </figure>
      )}
    </>
  );
}

/** A customer's credits as a bar alone, for a table that has the amounts beside it. */
export function CreditsBar({ of }: { of: Billing }) {
  const left = Math.max(0, microsIn(of.availableCredits));
  return <DrawnBar parts={partsOf(of, [{ name: 'left', micros: left, fill: lefts[0]! }])} />;
}

// What is overdrawn was used or is held: each credit stands in the bar once.
function partsOf(billing: Billing, left: readonly BarPart[]): BarPart[] {
  const over = Math.max(0, -microsIn(billing.availableCredits));
  const paid = Math.max(0, microsIn(billing.usedCredits) - over);
  return [
    ...left,
    { name: over ? 'held' : 'of it held', micros: microsIn(billing.heldCredits), fill: 'var(--chart-1)' },
    { name: over ? 'used of the credits' : 'used', micros: paid, fill: 'var(--chart-6)' },
    { name: 'expired', micros: microsIn(billing.expiredCredits), fill: 'var(--chart-7)' },
    { name: 'overdrawn', micros: over, fill: billing.allowOverages ? 'var(--chart-3)' : 'var(--bad)' },
  ];
}

// The first grants by name, in the order of the api; the others as one. What is held is left of a grant, and drawn beside it.
function leftByGrant({ heldCredits }: Billing, grants: readonly Grant[]): BarPart[] {
  const left = grants.filter(({ state, remainingCredits }) => state === 'ACTIVE' && microsIn(remainingCredits) > 0);
  const named = left.length > lefts.length ? left.slice(0, lefts.length - 1) : left;
  const others = left.slice(named.length);
  const parts = named.map((one) => [`left of ${one.name ?? 'credits'}`, microsIn(one.remainingCredits)] as const);
  const rest = others.reduce((all, one) => all + microsIn(one.remainingCredits), 0);
  let held = microsIn(heldCredits);
  return [...parts, [`left of ${others.length} other grants`, rest] as const].map(([name, micros], i) => {
    const taken = Math.min(held, micros);
    held -= taken;
    return { name, micros, fill: lefts[i]!, drawn: micros - taken };
  });
}

/** The bar without its numbers, which stand beside it. */
function DrawnBar({ parts }: { parts: readonly BarPart[] }) {
  return (
    <div class="drawn" aria-hidden="true">
      {parts.map(({ fill, micros, drawn = micros }, i) => {
        return drawn > 0 && <span key={i} style={{ flexGrow: drawn, background: fill }} />;
      })}
    </div>
  );
}
