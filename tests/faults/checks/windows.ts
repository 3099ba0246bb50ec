import { grouped, isUndecided, lossesOf, type Case, type Say } from './case.ts';
import type { Record_, Verified, WindowLimit } from '../history.ts';

const WINDOW_MS = { second: 1_000, minute: 60_000 };
// Limits are raised right after the balance is settled, which a call after it may see.
const RAISED_WITHIN_MS = 1_000;

/**
 * No limit over a window is passed by more than a loss of Redis explains, and none refuses what it had room for. What a loss explains:
 * - usage that no book has: nobody can count it any more;
 * - usage that was decided before the books' was settled: by a balance that visibly lacks it, or right after the loss.
 * By the client's clock a window is longer than it was, so only calls that lie wholly in a time count in it.
 */
export function checkWindows(one: Case, say: Say): void {
  const limits = new Map(
    one.changed.flatMap(({ of, detail }) => (of && detail.limits ? [[of, detail.limits] as const] : [])),
  );
  for (const [key, lines] of grouped(
    one.verified.filter((line) => limits.has(line.key)),
    (line) => line.key,
  )) {
    const record = one.records.findLast(({ billing }) => billing === lines[0]!.billing);
    for (const limit of limits.get(key)!) {
      checkPassed(one, key, limit, lines, record, say);
      checkRefused(key, limit, lines, say);
    }
  }
}

function checkPassed(
  one: Case,
  key: string,
  limit: WindowLimit,
  lines: Verified[],
  record: Record_ | undefined,
  say: Say,
): void {
  const passed = lines.filter((line) => line.status === 'VALID').toSorted((a, b) => a.to - b.to);
  const unknown = new Set(
    lossesOf(one).length > 0 ? [...lostCalls(passed, record), ...earlyCalls(one, passed, record)] : [],
  );
  const lost = [...unknown].reduce((sum, line) => sum + amountOf(limit, line), 0);
  const firsts = limit.per === 'day' ? daysOf(one, passed) : passed;
  for (const { from } of firsts) {
    let sum = 0;
    for (const line of passed) {
      if (line.from < from) continue;
      if (limit.per === 'day' && dayOf(one, line.to) !== dayOf(one, from)) continue;
      sum += amountOf(limit, line);
      if (sum <= mostIn(limit, line.to - from) + lost) continue;
      const within = `${Math.round(line.to - from)} ms`;
      return say('no limit over a window is passed', `${key}: ${sum} of ${limit.name}, ${limit.most}, in ${within}`);
    }
  }
}

/** Calls that no book has. */
function lostCalls(passed: Verified[], record: Record_ | undefined): Verified[] {
  return passed.filter((line) => !isBooked(line, record));
}

function isBooked({ call }: Verified, record: Record_ | undefined): boolean {
  return record?.rows.some(({ name, events }) => name === call && events > 0) === true;
}

/** Calls after a loss that were decided before the limits knew what the books have. */
function earlyCalls(one: Case, passed: Verified[], record: Record_ | undefined): Verified[] {
  const booked = passed.filter((line) => isBooked(line, record));
  const lacksUsage = (line: Verified) => {
    const before = booked.filter(({ to }) => to <= line.from).reduce((sum, { costMicros }) => sum + costMicros, 0);
    return line.usedMicros !== undefined && line.usedMicros - line.costMicros < before;
  };
  return lossesOf(one).flatMap(({ from, to }) => {
    const first = passed.find((line) => line.to >= to)?.to ?? to;
    const last = passed.findLast((line) => line.from >= from && lacksUsage(line))?.to ?? first;
    const until = Math.max(first, last) + RAISED_WITHIN_MS;
    return passed.filter((line) => line.to >= from && line.from <= until);
  });
}

/** The most that passes in a time. */
function mostIn({ most, per }: WindowLimit, ms: number): number {
  return per === 'day' ? most : most + (most * ms) / WINDOW_MS[per];
}

/** Where a limit refuses, everything that may have counted and the call itself are more than it has. */
function checkRefused(key: string, limit: WindowLimit, lines: Verified[], say: Say): void {
  for (const line of lines) {
    if (line.limitedBy !== limit.name) continue;
    const before = lines.filter((other) => other.from < line.to && (other.status === 'VALID' || isUndecided(other)));
    const counted = before.reduce((sum, other) => sum + amountOf(limit, other), 0);
    if (counted + amountOf(limit, line) <= limit.most)
      return say(
        'no limit is invented',
        `${key}: ${limit.name} refused ${line.call} after ${counted} of ${limit.most}`,
      );
  }
}

function amountOf({ unit }: WindowLimit, { costMicros }: Verified): number {
  return unit === 'requests' ? 1 : costMicros;
}

/** The first call of each day. */
function daysOf(one: Case, lines: Verified[]): Verified[] {
  return [...Map.groupBy(lines, ({ from }) => dayOf(one, from)).values()].map(([first]) => first!);
}

function dayOf({ startedAtMs }: Case, at: number): string {
  return new Date(startedAtMs + at).toISOString().slice(0, 10);
}
