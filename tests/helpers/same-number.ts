import { numberOfText } from '../../shared/runtime/text-number.ts';

/** Two different indexes whose texts have one number. Some 80,000 are looked at. */
export function twoOfOneNumber(textOf: (i: number) => string): [number, number] {
  const seen = new Map<number, number>();
  for (let i = 0; ; i++) {
    const number = numberOfText(textOf(i));
    const other = seen.get(number);
    if (other !== undefined) return [other, i];
    seen.set(number, i);
  }
}
