import type { Asked } from '../programs.ts';

/** Something that clients set: all that it may be, and how many changes of it began or ended. */
export type Setting<T> = { may: T[]; changes: number };

export function setting<T>(value: T): Setting<T> {
  return { may: [value], changes: 0 };
}

/** Whether it is this for sure. */
export function isSurely<T>({ may }: Setting<T>, value: T): boolean {
  return may.every((one) => one === value);
}

/** Changes it by a request, one at a time: until that is answered, and for as long as its answer was lost, it may be both. */
export async function change<T>(one: Setting<T>, to: T, ask: () => Promise<Asked>): Promise<void> {
  if (one.changes % 2 === 1) return;
  const before = one.may;
  one.changes += 1;
  one.may = [...before, to];
  const answer = await ask();
  one.changes += 1;
  if (answer) one.may = answer.body ? [to] : before;
}
