import { microsIn, textOf } from '../../data/amounts.ts';
import type { Output } from '../../data/call.ts';
import { Amount, State } from '../../parts/text.tsx';
import type { Grant } from './grants.tsx';

export type Billing = Output<'get /api/v1/customer-billing/{bid}'>['billing'];

const GRANTS_SHOWN = 3;

/** What is left is told apart by grant: each has a colour and a pattern of its own. */
type Kind = `left-${0 | 1 | 2 | 3}` | 'used' | 'held' | 'over' | 'owed' | 'expired';
type BarPart = {
  name: string;
  amount: string;
  kind: Kind;
  /** How much of the bar it takes, if that is not its amount. */
  drawn?: string;
};

const stripes = (degrees: number, colour: number, px: number) =>
  `repeating-linear-gradient(${degrees}deg, var(--chart-${colour}) 0 ${px}px, var(--stripe) ${px}px ${px + 2}px)`;
const fills: Record<Kind, string> = {
  'left-0': 'var(--chart-2)',
  'left-1': stripes(45, 0, 4),
  'left-2': stripes(90, 5, 3),
  'left-3': stripes(-45, 3, 2),
  used: 'var(--chart-6)',
  held: 'var(--chart-1)',
  over: 'var(--bad)',
  owed: 'var(--chart-3)',
  expired: 'var(--chart-7)',
};

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

/** Amounts as parts of one bar, and as numbers below it. */
function Bar({ label, parts }: { label: string; parts: readonly BarPart[] }) {
  return (
    <figure class="bar" aria-label={label}>
      <DrawnBar parts={parts} />
      <figcaption>
        <ul class="legend">
          {parts
            .filter(({ amount }) => microsIn(amount) > 0n)
            .map(({ name, amount, kind }, i) => (
              <li key={`${i} ${name}`}>
                <span class="dot" style={{ background: fills[kind] }} aria-hidden="true" />
                {name} <Amount of={amount} />
              </li>
            ))}
        </ul>
      </figcaption>
    </figure>
  );
}

/** The bar without its numbers, which stand beside it. Only the drawing rounds. */
function DrawnBar({ parts }: { parts: readonly BarPart[] }) {
  return (
    <div class="drawn" aria-hidden="true">
      {parts
        .map(({ kind, amount, drawn = amount }) => ({ kind, share: Number(drawn) }))
        .filter(({ share }) => share > 0)
        .map(({ kind, share }, i) => (
          <span key={`${i} ${kind}`} style={{ flexGrow: share, background: fills[kind] }} />
        ))}
    </div>
  );
}
