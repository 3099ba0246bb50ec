import { microsIn } from '../data/amounts.ts';
import { Amount } from './text.tsx';

/** What is left is told apart by grant: each has a colour and a pattern of its own. */
type Kind = `left-${0 | 1 | 2 | 3}` | 'used' | 'held' | 'over' | 'owed' | 'expired';
export type BarPart = {
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

/** Amounts as parts of one bar, and as numbers below it. */
export function Bar({ label, parts }: { label: string; parts: readonly BarPart[] }) {
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
export function DrawnBar({ parts }: { parts: readonly BarPart[] }) {
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
