import { Amount } from './text.tsx';

export type BarPart = { name: string; amount: string; kind: 'left' | 'used' | 'held' | 'over' | 'expired' };

/** Amounts as parts of one bar, and as numbers below it. Only the drawing rounds. */
export function Bar({ label, parts }: { label: string; parts: readonly BarPart[] }) {
  const shown = parts.filter(({ amount }) => Number(amount) > 0);
  return (
    <figure class="bar" aria-label={label}>
      <div class="drawn" aria-hidden="true">
        {shown.map(({ name, amount, kind }, i) => (
          <span key={`${i} ${name}`} class={kind} style={{ flexGrow: Number(amount) }} />
        ))}
      </div>
      <figcaption>
        <ul>
          {parts.map(({ name, amount, kind }, i) => (
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
