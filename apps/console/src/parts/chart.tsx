import { grouped, Legend } from './text.tsx';

type Part = { name: string; fill: string; from: readonly number[]; to: readonly number[] };
/** What a chart shows: periods by their labels, and the parts of each. */
export type Chart = { labels: readonly string[]; parts: readonly Part[] };

const COLOURS = 8;
// No name of its own: one may be called others.
const REST = '';
const HEADROOM = 1.08;
const MOST_TICKS = 5;
const MOST_LABELS = 10;
const everyNth = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 240, 500, 1_000, 2_000];

/**
 * Bars by time, one part for each name on top of the other. It is a drawing: the numbers stand in the table below it, and
 * whoever can't see it reads them there.
 */
export function StackedBars({ labels, parts }: Chart) {
  const most = parts.reduce((all, { to }) => to.reduce((a, b) => Math.max(a, b), all), 0) * HEADROOM || 1;
  // Corrections may be below 0.
  const least = parts.reduce((all, { to }) => to.reduce((a, b) => Math.min(a, b), all), 0) * HEADROOM;
  const heightOf = (value: number) => (100 * (value - least)) / (most - least);
  const nth = everyNth.find((one) => labels.length / one <= MOST_LABELS) ?? labels.length;
  return (
    <figure class="chart" aria-hidden="true">
      <div class="drawing">
        {ticksBetween(least, most).map((at) => (
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

function ticksBetween(least: number, most: number): number[] {
  const atLeast = (most - least) / MOST_TICKS;
  const power = 10 ** Math.floor(Math.log10(atLeast));
  const step = power * [1, 2, 2.5, 5, 10].find((one) => one * power >= atLeast)!;
  const first = Math.ceil(least / step);
  // Not 0.30000000000000004.
  return Array.from({ length: Math.floor(most / step) - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(6)),
  );
}

/**
 * Makes a chart of amounts: `periods` are all that it shows, by their names. Of many names it shows the largest; those of
 * `colours` keep their order and their colours, whichever others there are.
 */
export function chartOf(
  amounts: readonly (readonly [period: string, name: string, amount: number])[],
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
    const to = [...periods.keys()].map((period, at) => from[at]! + (sums.get(`${period} ${name}`) ?? 0));
    const part = { name: name || 'others', fill: `var(--chart-${(colours[name] ?? i) % COLOURS})`, from, to };
    from = to;
    return part;
  });
  return { labels: [...periods.values()], parts };
}

function sumsBy<Row extends readonly [...unknown[], number]>(rows: readonly Row[], nameOf: (row: Row) => string) {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(nameOf(row), (sums.get(nameOf(row)) ?? 0) + (row.at(-1) as number));
  return sums;
}
