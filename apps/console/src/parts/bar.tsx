import { microsIn } from '../data/amounts.ts';
import { Amount } from './text.tsx';

/** What is left is told apart by grant: each has a colour and a pattern of its own. */
type Kind = `left-${0 | 1 | 2 | 3}` | 'used' | 'held' | 'over' | 'owed' | 'expired';
export type BarPart = { name: string; amount: string; kind: Kind };

/** Amounts as parts of one bar, and as numbers below it. Only the drawing rounds. */
export function Bar({ label, parts }: { label: string; parts: readonly BarPart[] }) {
  const shown = parts.filter(({ amount }) => microsIn(amount) > 0n);
  return (
    <figure class="bar" aria-label={label}>
      <div class="drawn" aria-hidden="true">
        {shown.map(({ name, amount, kind }, i) => (
          <span key={`${i} ${name}`} class={kind} style={{ flexGrow: Number(amount) }} />
        ))}
      </div>
      <figcaption>
        <ul>
          {shown.map(({ name, amount, kind }, i) => (
            <li key={`${i} ${name}`}>
              <span class={`dot ${kind}`} aria-hidden="true" />
              <span class="name">{name}</span> <Amount of={amount} />
            </li>
          ))}
        </ul>
      </figcaption>
    </figure>
  );
}
