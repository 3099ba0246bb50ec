import type { Case, Say } from './case.ts';
import { spansOf } from './case.ts';
import { outages } from './outages.ts';

// The service's own deadlines, with the slowest network of all faults and room for a busy machine.
const VERIFY_WITHIN_MS = 3_000;
const MANAGE_WITHIN_MS = 9_500;
const RETURNS_WITHIN_MS = 3_000;

/** The rules that a machine breaks by itself which is busy with other things; then they are not judged. */
export const rulesOfTime = new Set(['killed programs return', 'deadlines hold', 'what is not concerned goes on']);

// A run by itself comes to about 2.
const BUSY_LOAD = 4;

/** Whether the machine had time enough for deadlines to be judged. */
export function hadTime({ load }: Case): boolean {
  return load < BUSY_LOAD;
}

/** Deadlines hold, nobody is left without an answer or with one that says nothing, and all comes back. */
export function checkTime(one: Case, say: Say): void {
  for (const { text } of one.findings) say('all comes back', text);
  for (const { program, tookMs } of one.returns) {
    if (tookMs > RETURNS_WITHIN_MS) say('killed programs return', `${program} was back only after ${tookMs} ms`);
  }
  for (const line of [...one.verified, ...one.changed, ...one.reads]) {
    const withTimeout = line.type === 'verify' ? VERIFY_WITHIN_MS : MANAGE_WITHIN_MS;
    const tookMs = Math.round(line.to - line.from);
    if (line.error === 'no answer') say('deadlines hold', `${line.at} left a call without an answer for ${tookMs} ms`);
    else if (line.http !== undefined && tookMs > withTimeout)
      say('deadlines hold', `${line.at} answered ${line.http} after ${tookMs} ms`);
    if (line.http === 500) say('errors are clear', `${line.at} answered 500`);
  }
  for (const span of spansOf(one, 'fault')) {
    const { verifyWithinMs = Infinity, manageWithinMs = Infinity } = span;
    const { verifyMs, manageMs } = outages(one);
    if (verifyMs > verifyWithinMs)
      say('what is not concerned goes on', `verification was away for ${Math.round(verifyMs)} ms`);
    if (manageMs > manageWithinMs)
      say('what is not concerned goes on', `management was away for ${Math.round(manageMs)} ms`);
  }
  checkDays(one, say);
}

// Days go by Redis's clock, which is this machine's.
function checkDays(one: Case, say: Say): void {
  const [whole] = spansOf(one, 'phase');
  if (!whole) return;
  const day = (at: number) => new Date(one.startedAtMs + at).toISOString().slice(0, 10);
  const days = new Set([day(whole.from), day(whole.to)]);
  for (const { billing, rows } of one.records) {
    const other = rows.find((row) => !days.has(row.day));
    if (other) say('one clock', `${billing} has usage on ${other.day}`);
  }
}
