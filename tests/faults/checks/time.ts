import type { Case, Say } from './case.ts';
import { spansOf } from './case.ts';
import { outages } from './outages.ts';

// The service's own deadlines, plus the slowest network of all faults and room for a busy machine.
const VERIFY_WITHIN_MS = 3_000;
const MANAGE_WITHIN_MS = 9_500;
const RETURNS_WITHIN_MS = 3_000;

/** The rules that a machine breaks when it is too busy with other work: then they are not judged. */
export const rulesOfTime = new Set(['killed programs return', 'deadlines hold', 'unaffected calls go on']);

// A run alone on a machine comes to about 2.
const BUSY_LOAD = 4;

/** Whether the machine was free enough to judge deadlines. */
export function hadTime({ load }: Case): boolean {
  return load < BUSY_LOAD;
}

/** Deadlines hold, every call gets a clear answer, and everything recovers. */
export function checkTime(one: Case, say: Say): void {
  for (const { text } of one.findings) say('everything recovers', text);
  for (const { program, tookMs, waitedMs } of one.returns) {
    if (tookMs - waitedMs > RETURNS_WITHIN_MS)
      say('killed programs return', `${program} was back only after ${tookMs} ms, ${waitedMs} of them without a core`);
  }
  for (const line of [...one.verified, ...one.held, ...one.settled, ...one.changed, ...one.reads]) {
    const isManaged = line.type === 'change' || line.type === 'read';
    const allowedMs = isManaged ? MANAGE_WITHIN_MS : VERIFY_WITHIN_MS;
    const tookMs = Math.round(line.to - line.from);
    if (line.error === 'no answer') say('deadlines hold', `${line.at} left a call without an answer for ${tookMs} ms`);
    else if (line.http !== undefined && tookMs > allowedMs)
      say('deadlines hold', `${line.at} answered ${line.http} after ${tookMs} ms`);
    if (line.http === 500) say('errors are clear', `${line.at} answered 500`);
  }
  for (const span of spansOf(one, 'fault')) {
    const { verifyWithinMs = Infinity, manageWithinMs = Infinity } = span;
    const { verifyMs, manageMs } = outages(one);
    if (verifyMs > verifyWithinMs)
      say('unaffected calls go on', `verification was unavailable for ${Math.round(verifyMs)} ms`);
    if (manageMs > manageWithinMs)
      say('unaffected calls go on', `management was unavailable for ${Math.round(manageMs)} ms`);
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
