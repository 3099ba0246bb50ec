import { table } from '../apps/stack/demo/print.ts';

/** A figure with what it must and should reach. For a ratio of latencies or memory, less is better. */
export type Figure = { what: string; value: number; must: number; aim: number; lessIsBetter?: boolean; seen: string };

/** Prints the figures as a table; gives whether each reached what it must. */
export function printFigures(figures: Figure[]): boolean {
  const rows = figures.map((figure) => {
    const sign = figure.lessIsBetter ? '≤ ' : '≥ ';
    const verdict = reaches(figure, figure.aim) ? 'aim reached' : reaches(figure, figure.must) ? 'reached' : 'MISSED';
    return [
      figure.what,
      shown(figure.value),
      sign + shown(figure.must),
      sign + shown(figure.aim),
      verdict,
      figure.seen,
    ];
  });
  if (rows.length > 0) console.log(`\n${table(['what', '>figure', '>must', '>aim', '', 'seen'], rows)}`);
  return figures.every((figure) => reaches(figure, figure.must));
}

/** A whole number with separated thousands. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}

function reaches({ value, lessIsBetter }: Figure, target: number): boolean {
  return lessIsBetter ? value <= target : value >= target;
}

function shown(value: number): string {
  return value >= 100 ? whole(value) : value.toFixed(2);
}
