import { grouped, type Case } from './case.ts';

/** The longest time in which a key was not decided, and in which management did not serve. */
export function outages(one: Case): { verifyMs: number; manageMs: number } {
  // Keys that are not verified all the time, or are refused for another reason, show nothing.
  const deleted = new Set(one.changed.filter(({ what }) => what === 'key.delete').map(({ of }) => of));
  const keys = grouped(
    one.verified.filter((line) => !line.token && !deleted.has(line.key)),
    (line) => line.key,
  );
  const served = [...one.reads, ...one.changed];
  return {
    verifyMs: Math.max(0, ...[...keys.values()].map((lines) => longestGap(lines.filter(({ http }) => http === 200)))),
    manageMs: longestGap(served.filter(({ http = 500 }) => http < 500)),
  };
}

/** The longest time from one answer to the next. */
function longestGap(answers: { to: number }[]): number {
  const ends = answers.map(({ to }) => to).toSorted((a, b) => a - b);
  return ends.reduce((longest, end, i) => Math.max(longest, i === 0 ? 0 : end - ends[i - 1]!), 0);
}
