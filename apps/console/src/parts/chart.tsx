import { useState } from 'preact/hooks';
import { grouped, Legend } from './text.tsx';

type Part = { name: string; fill: string; from: readonly number[]; to: readonly number[]; amounts: readonly number[] };
type Amount = readonly [period: string, name: string, amount: number];
/** What a chart shows: periods by their labels, and the parts of each. */
export type Chart = { labels: readonly string[]; parts: readonly Part[] };

const COLOURS = 8;
// No name of its own: one may be called others.
const REST = '';
const HEADROOM = 1.08;
const MOST_TICKS = 5;
const MOST_LABELS = 10;
/**
 * Bars by time, one part for each name on top of the other, with their sums, or the amounts of the period that one points at.
 * It is a drawing: the numbers stand in the table below it, and whoever can't see it reads them there.
 */
export function StackedBars({ labels, parts }: Chart) {
  const [at, setAt] = useState<number>();
  const point = (event: PointerEvent & { currentTarget: HTMLElement }) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    const place = Math.floor((labels.length * (event.clientX - left)) / width);
    setAt(place >= 0 && place < labels.length ? place : undefined);
  };
  const told = parts.map(({ name, fill, amounts }) => {
    const amount = at === undefined ? amounts.reduce((sum, one) => sum + one, 0) : amounts[at]!;
    return { name, fill, amount: String(Math.round(amount * 1e6) / 1e6) };
  });
  const most = Math.max(0, ...(parts.at(-1)?.to ?? [])) * HEADROOM || 1;
  const heightOf = (value: number) => (100 * value) / most;
  const nth = Math.ceil(labels.length / MOST_LABELS);
  return (
    <figure class="chart" aria-hidden="true">
      <div class="drawing" onPointerMove={point} onPointerLeave={() => setAt(undefined)}>
        {at !== undefined && (
          <div class="at" style={{ left: `${(100 * at) / labels.length}%`, width: `${100 / labels.length}%` }} />
        )}
        {ticksTo(most).map((at) => (
          <div key={at} class="tick" style={{ bottom: `${heightOf(at)}%` }}>
            <span>{grouped(String(at))}</span>
          </div>
        ))}
        <svg viewBox={`0 0 ${labels.length} 100`} preserveAspectRatio="none">
          {parts.map(({ fill, from, to }) => (
            <path key={fill} style={{ fill }} d={barsBetween(from.map(heightOf), to.map(heightOf))} />
          ))}
        </svg>
        {labels.map(
          (label, i) =>
            i % nth === 0 && (
              <span key={`${i} ${label}`} class="period" style={{ left: `${(100 * (i + 0.5)) / labels.length}%` }}>
                {label}
              </span>
            ),
        )}
      </div>
      <Legend of={told} title={at === undefined ? 'In all' : labels[at]!} />
    </figure>
  );
}

// One path for all bars of a part, each of four fifths of its place.
function barsBetween(from: readonly number[], to: readonly number[]): string {
  return to.map((top, i) => (top === from[i] ? '' : `M${i + 0.1} ${100 - from[i]!}h.8V${100 - top}h-.8Z`)).join('');
}

function ticksTo(most: number): number[] {
  const atLeast = most / MOST_TICKS;
  const power = 10 ** Math.floor(Math.log10(atLeast));
  const step = power * [1, 2, 2.5, 5, 10].find((one) => one * power >= atLeast)!;
  // Not 0.30000000000000004.
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

/**
 * Makes a chart of amounts: `periods` are all that it shows, by their names. Of many names it shows the largest; those `known`
 * keep their order and their colours, whichever others there are, and are called as people do.
 */
export function chartOf(
  amounts: readonly Amount[],
  periods: ReadonlyMap<string, string>,
  known: Readonly<Record<string, readonly [word: string, colour: number]>> = {},
): Chart {
  const shown = amounts.filter(([period]) => periods.has(period));
  const totals = sumsBy(shown, ([, name]) => name);
  const largest = [...totals.keys()].toSorted((a, b) => totals.get(b)! - totals.get(a)!);
  const places = Object.keys(known);
  const names = (largest.length > COLOURS ? largest.slice(0, COLOURS - 1) : largest).toSorted(
    (a, b) => places.indexOf(a) - places.indexOf(b) || (a < b ? -1 : 1),
  );
  const sums = sumsBy(shown, ([period, name]) => `${period} ${names.includes(name) ? name : REST}`);
  let from: readonly number[] = [...periods].map(() => 0);
  const parts = [...names, ...(largest.length > names.length ? [REST] : [])].map((name, i): Part => {
    // Corrections may be below 0, which has no bar.
    const amounts = [...periods.keys()].map((period) => sums.get(`${period} ${name}`) ?? 0);
    const to = amounts.map((amount, at) => from[at]! + Math.max(0, amount));
    const [word = name || 'others', colour = i % COLOURS] = known[name] ?? [];
    const part = { name: word, fill: `var(--chart-${colour})`, from, to, amounts };
    from = to;
    return part;
  });
  return { labels: [...periods.values()], parts };
}

function sumsBy(amounts: readonly Amount[], nameOf: (one: Amount) => string): Map<string, number> {
  const groups = [...Map.groupBy(amounts, nameOf)];
  return new Map(groups.map(([name, all]) => [name, all.reduce((sum, [, , amount]) => sum + amount, 0)]));
}
