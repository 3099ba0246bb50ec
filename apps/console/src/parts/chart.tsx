import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

export type Line = { name: string; values: readonly number[] };

const HEIGHT_PX = 220;
const HEADROOM = 1.08;
const HALF_DAY_S = 43_200;
const COLOURS = 8;
const dayName = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });

/**
 * Bars by time, one part for each name on top of the other. It is a drawing: the numbers stand in the table below it, and
 * whoever can't see it reads them there.
 */
export function StackedBars({ seconds, lines }: { seconds: readonly number[]; lines: readonly Line[] }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const root = place.current!;
    const bars = uPlot.paths.bars!({ size: [0.8, 40] });
    const style = getComputedStyle(root);
    const colourOf = (i: number) => style.getPropertyValue(`--chart-${i % COLOURS}`);
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
        scales: {
          x: { time: true, range: (_, first, last) => [first - HALF_DAY_S, last + HALF_DAY_S] },
          y: { range: (_, __, most) => [0, most * HEADROOM || 1] },
        },
        axes: [
          {
            stroke,
            grid: none,
            ticks: none,
            space: 90,
            values: (_, times) => times.map((at) => dayName.format(at * 1000)),
          },
          { stroke, grid: line, ticks: none, size: 60 },
        ],
        series: [{}, ...sums.map(({ at }) => ({ fill: colourOf(at), width: 0, paths: bars, points: { show: false } }))],
      },
      [[...seconds], ...sums.map(({ values }) => values)],
      root,
    );
    const follow = new ResizeObserver(() => chart.setSize({ width: root.clientWidth, height: HEIGHT_PX }));
    follow.observe(root);
    return () => {
      follow.disconnect();
      chart.destroy();
    };
  }, [seconds, lines]);
  return (
    <figure class="chart" aria-hidden="true">
      <div ref={place} />
      <figcaption>
        <ul class="legend">
          {lines.map(({ name }, i) => (
            <li key={name}>
              <span class={`dot chart-${i % COLOURS}`} /> {name}
            </li>
          ))}
        </ul>
      </figcaption>
    </figure>
  );
}

function stacked(lines: readonly Line[]): { at: number; values: number[] }[] {
  const sum = lines[0]?.values.map(() => 0) ?? [];
  return lines.map(({ values }, at) => {
    values.forEach((value, i) => (sum[i]! += value));
    return { at, values: [...sum] };
  });
}
