import { grouped } from '../data/amounts.ts';

export type Line = {
  name: string;
  values: readonly number[];
  /** Which of the chart's colours; else that of its place. */
  colour?: number;
};
/** What a chart shows: periods by their labels, and the parts of each. */
export type Chart = { labels: readonly string[]; lines: readonly Line[] };

const COLOURS = 8;
const OTHERS = 'others';
const HEADROOM = 1.08;
const MOST_TICKS = 5;
const MOST_LABELS = 10;
const everyNth = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 240, 500, 1_000, 2_000];

/**
 * Bars by time, one part for each name on top of the other. It is a drawing: the numbers stand in the table below it, and
 * whoever can't see it reads them there.
 */
export function StackedBars({ labels, lines }: Chart) {
  const parts = stacked(lines);
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
          {parts.map(({ name, colour, from, to }) => (
            <path key={name} style={{ fill: colour }} d={barsBetween(from.map(heightOf), to.map(heightOf))} />
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
      <figcaption>
        <ul class="legend">
          {parts.map(({ name, colour }) => (
            <li key={name}>
              <span class="dot" style={{ background: colour }} /> {name}
            </li>
          ))}
        </ul>
      </figcaption>
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

/** Makes a chart of amounts: `periods` are all that it shows, by their names. Of many names it shows the largest. */
export function chartOf(
  amounts: readonly (readonly [period: string, name: string, amount: number])[],
  periods: ReadonlyMap<string, string>,
): Chart {
  const places = new Map([...periods.keys()].map((period, i) => [period, i]));
  const byName = new Map<string, number[]>();
  for (const [period, name, amount] of amounts) {
    const at = places.get(period);
    if (at === undefined) continue;
    const values = byName.get(name) ?? Array.from({ length: places.size }, () => 0);
    byName.set(name, values);
    values[at]! += amount;
  }
  const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);
  const all = [...byName].map(([name, values]) => ({ name, values }));
  const largest = all.toSorted((a, b) => total(b.values) - total(a.values));
  const [shown, rest] = all.length > COLOURS ? [largest.slice(0, COLOURS - 1), largest.slice(COLOURS - 1)] : [all, []];
  const lines = shown.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  if (rest.length > 0)
    lines.push({
      name: OTHERS,
      values: [...places.values()].map((at) => total(rest.map(({ values }) => values[at]!))),
    });
  return { labels: [...periods.values()], lines };
}

type Part = { name: string; colour: string; from: number[]; to: number[] };

function stacked(lines: readonly Line[]): Part[] {
  let from = lines[0]?.values.map(() => 0) ?? [];
  return lines.map(({ name, values, colour }, i) => {
    const to = values.map((value, at) => from[at]! + value);
    const part = { name, colour: `var(--chart-${(colour ?? i) % COLOURS})`, from, to };
    from = to;
    return part;
  });
}
