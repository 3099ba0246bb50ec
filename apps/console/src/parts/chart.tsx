import { grouped, Legend } from './text.tsx';

type Part = { name: string; fill: string; from: readonly number[]; to: readonly number[] };
/** What a name amounts to in a period. */
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
 * Bars by time, one part for each name on top of the other. It is a drawing: the numbers stand in the table below it, and
 * whoever can't see it reads them there.
 */
export function StackedBars({ labels, parts }: Chart) {
  const most = Math.max(0, ...(parts.at(-1)?.to ?? [])) * HEADROOM || 1;
  const heightOf = (value: number) => (100 * value) / most;
  const nth = Math.ceil(labels.length / MOST_LABELS);
  return (
    <figure class="chart" aria-hidden="true">
      <div class="drawing">
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
      <Legend of={parts} />
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
 * Makes a chart of amounts: `periods` are all that it shows, by their names. Of many names it shows the largest; those of
 * `colours` keep their order and their colours, whichever others there are.
 */
export function chartOf(
  amounts: readonly Amount[],
  periods: ReadonlyMap<string, string>,
  colours: Readonly<Record<string, number>> = {},
): Chart {
  const known = amounts.filter(([period]) => periods.has(period));
  const totals = sumsBy(known, ([, name]) => name);
  const largest = [...totals.keys()].toSorted((a, b) => totals.get(b)! - totals.get(a)!);
  const places = Object.keys(colours);
  const names = (largest.length > COLOURS ? largest.slice(0, COLOURS - 1) : largest).toSorted(
    (a, b) => places.indexOf(a) - places.indexOf(b) || (a < b ? -1 : 1),
  );
  const sums = sumsBy(known, ([period, name]) => `${period} ${names.includes(name) ? name : REST}`);
  let from: readonly number[] = [...periods].map(() => 0);
  const parts = [...names, ...(largest.length > names.length ? [REST] : [])].map((name, i): Part => {
    // Corrections may be below 0, which has no bar.
    const to = [...periods.keys()].map((period, at) => from[at]! + Math.max(0, sums.get(`${period} ${name}`) ?? 0));
    const part = { name: name || 'others', fill: `var(--chart-${(colours[name] ?? i) % COLOURS})`, from, to };
    from = to;
    return part;
  });
  return { labels: [...periods.values()], parts };
}

function sumsBy(amounts: readonly Amount[], nameOf: (one: Amount) => string): Map<string, number> {
  const groups = [...Map.groupBy(amounts, nameOf)];
  return new Map(groups.map(([name, all]) => [name, all.reduce((sum, [, , amount]) => sum + amount, 0)]));
}
