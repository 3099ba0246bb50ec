import { table } from '../shared/values/table.ts';

/** A figure with what it must and should reach. For a ratio of latencies or memory, less is better. */
export type Figure = { what: string; value: number; must: number; aim: number; lessIsBetter?: boolean; seen?: string };

/** How long to measure: rounds of so many seconds, shared out over several processes of each kind. */
export type HowLong = { rounds: number; seconds: number; processes: number };

/** What a part of the benchmark found. */
export type Part = { figures: Figure[]; table?: string };

/** Prints the figures as a table; gives whether each reached what it must. */
export function printFigures(figures: Figure[]): boolean {
  const rows = figures.map((figure) => {
    const { what, value, must, aim, lessIsBetter, seen = '' } = figure;
    const sign = lessIsBetter ? '≤ ' : '≥ ';
    const verdict = reaches(figure, aim) ? 'aim reached' : reaches(figure, must) ? 'reached' : 'MISSED';
    return [what, shown(value), sign + shown(must), sign + shown(aim), verdict, seen];
  });
  if (rows.length > 0) console.log(`\n${table(['what', '>figure', '>must', '>aim', '', 'seen'], rows)}`);
  return figures.every((figure) => reaches(figure, figure.must));
}

/** Microseconds, printed as milliseconds. */
export function ms(us: number): string {
  return `${(us / 1000).toFixed(2)} ms`;
}

/** Microseconds, printed as such. */
export function us(value: number): string {
  return `${value.toFixed(1)} µs`;
}

function reaches({ value, lessIsBetter }: Figure, target: number): boolean {
  return lessIsBetter ? value <= target : value >= target;
}

function shown(value: number): string {
  return value >= 100 ? number(value) : value.toFixed(2);
}

/** The value below which this part (0 to 1) of the sorted values lies. */
export function percentile(sorted: number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

/** A whole number with commas. */
export function number(value: number): string {
  return Math.round(value).toLocaleString('en');
}
