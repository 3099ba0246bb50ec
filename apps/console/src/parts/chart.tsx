import { useEffect, useRef, useState } from 'preact/hooks';
import { grouped } from '../data/amounts.ts';

export type Line = {
  name: string;
  values: readonly number[];
  /** Which of the chart's colours; else that of its place. */
  colour?: number;
};
/** What a chart shows: periods by their labels, and the parts of each. */
export type Chart = { labels: readonly string[]; lines: readonly Line[] };

type UPlot = typeof import('uplot');

// That of its place in the style sheet.
const HEIGHT_PX = 220;
const HEADROOM = 1.08;
const COLOURS = 8;
const OTHERS = 'others';

/**
 * Bars by time, one part for each name on top of the other. It is a drawing: the numbers stand in the table below it, and
 * whoever can't see it reads them there.
 */
export function StackedBars({ labels, lines }: Chart) {
  const place = useRef<HTMLDivElement>(null);
  const isDark = useDark();
  const end = useRef<(() => void) | undefined>(undefined);
  useEffect(() => {
    let isOver = false;
    // All numbers of the page are shown before: to draw takes a slow machine a tenth of a second. The library is run with the
    // first chart, which no other page waits for.
    whenIdle(async () => {
      const { default: uPlot } = await import('uplot');
      if (isOver) return;
      end.current?.();
      end.current = draw(uPlot, place.current!, { labels, lines });
    });
    return () => {
      isOver = true;
    };
  }, [labels, lines, isDark]);
  useEffect(() => () => end.current?.(), []);
  return (
    <figure class="chart" aria-hidden="true">
      <div class="drawing" ref={place} />
      <figcaption>
        <ul class="legend">
          {lines.map(({ name, colour }, i) => (
            <li key={name}>
              <span class="dot" style={{ background: `var(--chart-${(colour ?? i) % COLOURS})` }} /> {name}
            </li>
          ))}
        </ul>
      </figcaption>
    </figure>
  );
}

// Safari tells no idle moments.
function whenIdle(work: () => Promise<void>): void {
  if ('requestIdleCallback' in window) requestIdleCallback(() => void work(), { timeout: 500 });
  else setTimeout(() => void work());
}

/** Draws a chart that follows the width of its place; gives what ends it. */
function draw(uPlot: UPlot, root: HTMLElement, { labels, lines }: Chart): () => void {
  const bars = uPlot.paths.bars!({ size: [0.8, 40] });
  const style = getComputedStyle(root);
  const colourOf = (i: number) => style.getPropertyValue(`--chart-${i}`);
  const stroke = style.getPropertyValue('--pico-color');
  const [line, none] = [{ stroke: style.getPropertyValue('--line'), width: 1 }, { show: false }];
  // The tallest first: each smaller sum is drawn before it.
  const sums = stacked(lines).toReversed();
  const chart = new uPlot(
    {
      width: root.clientWidth,
      height: HEIGHT_PX,
      legend: { show: false },
      cursor: { show: false },
      // No axis is of times: all that the library would prepare for them is left out.
      fmtDate: () => () => '',
      scales: {
        x: { time: false, range: () => [-0.5, labels.length - 0.5] },
        // Corrections may be below 0.
        y: { range: (_, least, most) => [Math.min(0, least * HEADROOM), most * HEADROOM || 1] },
      },
      axes: [
        {
          stroke,
          grid: none,
          ticks: none,
          space: 90,
          size: 30,
          incrs: [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 240, 500, 1_000, 2_000],
          values: (_, places) => places.map((at) => labels[at] ?? ''),
        },
        {
          stroke,
          grid: line,
          ticks: none,
          size: 60,
          values: (_, amounts) => amounts.map((one) => grouped(String(one))),
        },
      ],
      series: [{}, ...sums.map(({ at }) => ({ fill: colourOf(at), width: 0, paths: bars, points: { show: false } }))],
    },
    [labels.map((_, i) => i), ...sums.map(({ values }) => values)],
    root,
  );
  const follow = new ResizeObserver(() => {
    const width = root.clientWidth;
    // It is told of the first width too, which the chart has.
    if (width !== chart.width) chart.setSize({ width, height: HEIGHT_PX });
  });
  follow.observe(root);
  return () => {
    follow.disconnect();
    chart.destroy();
  };
}

// What is drawn keeps the colours that it was drawn with.
function useDark(): boolean {
  const [query] = useState(() => matchMedia('(prefers-color-scheme: dark)'));
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const look = () => setDark(query.matches);
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, []);
  return isDark;
}

type Amounts<Row> = { periodOf(row: Row): string; nameOf(row: Row): string; amountOf(row: Row): number };

/** Makes a chart of rows: `periods` are all that it shows, by what `periodOf` gives. Of many names it shows the largest. */
export function chartOf<Row>(
  rows: readonly Row[],
  periods: ReadonlyMap<string, string>,
  { periodOf, nameOf, amountOf }: Amounts<Row>,
): Chart {
  const places = new Map([...periods.keys()].map((period, i) => [period, i]));
  const byName = new Map<string, number[]>();
  for (const row of rows) {
    const at = places.get(periodOf(row));
    if (at === undefined) continue;
    const name = nameOf(row);
    let values = byName.get(name);
    if (!values) byName.set(name, (values = Array.from({ length: places.size }, () => 0)));
    values[at]! += amountOf(row);
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

function stacked(lines: readonly Line[]): { at: number; values: number[] }[] {
  const sum = lines[0]?.values.map(() => 0) ?? [];
  return lines.map(({ values, colour }, i) => {
    values.forEach((value, at) => (sum[at]! += value));
    return { at: (colour ?? i) % COLOURS, values: [...sum] };
  });
}
