import { formatCredits } from '../../../shared/values/credits.ts';
import { grouped, spansOf, type Case, type Say } from './case.ts';
import type { Verified } from '../history.ts';

/** No limit on credits, overage or rate was passed, and no call was refused below its limit. */
export function checkLimits(one: Case, say: Say): void {
  for (const line of one.verified) checkCredits(line, say);
  // Credits that a lost Redis had counted can be spent once more until their events are in the books.
  const mayBeLate = one.emptied.length > 0 || one.restored.length > 0 || spansOf(one, 'lagged').length > 0;
  for (const { billing, usedMicros, limitMicros } of one.records) {
    if (usedMicros > limitMicros + capturedBeyond(one, billing) && !mayBeLate)
      say('no limit is passed', `${billing} used ${formatCredits(usedMicros)} of ${formatCredits(limitMicros)}`);
  }
  const rates = new Map(
    one.changed.filter((line) => line.what === 'key.create').map(({ of, detail }) => [of, detail.ratePerSecond]),
  );
  const windowed = new Set(one.changed.filter(({ detail }) => detail.limits).map(({ of }) => of));
  for (const [key, lines] of grouped(one.verified, (line) => line.key)) {
    const perSecond = rates.get(key);
    if (windowed.has(key)) continue;
    if (perSecond) checkRate(key, perSecond, lines, say);
    else if (lines.some((line) => line.status === 'RATE_LIMITED'))
      say('no limit is invented', `${key} has no rate limit and was RATE_LIMITED`);
  }
}

/** What captures may have debited beyond what was held: that is debited too, and all of it once the hold has ended. */
function capturedBeyond(one: Case, billing: string): number {
  const captures = one.settled.filter((line) => line.billing === billing && line.what === 'capture');
  const ends = new Map(one.held.map((line) => [line.call, { micros: line.micros, at: line.from + line.forMs }]));
  return captures.reduce((sum, { call, to, micros = 0 }) => {
    const { micros: held, at } = ends.get(call)!;
    return sum + (to >= at ? micros : Math.max(0, micros - held));
  }, 0);
}

function checkCredits(line: Verified, say: Say): void {
  const { call, status, costMicros, limitMicros = Infinity } = line;
  const usedMicros = (line.usedMicros ?? 0) + (line.heldMicros ?? 0);
  // The answer to a repeated call may have a later balance.
  if (status === 'VALID' && costMicros > 0 && usedMicros > limitMicros && !line.idempotent)
    say('no limit is passed', `${call} was VALID at ${usedMicros} of ${limitMicros}`);
  if (status === 'USAGE_LIMITED' && line.limitedBy === undefined && usedMicros + costMicros <= limitMicros)
    say('no limit is invented', `${call} was USAGE_LIMITED at ${usedMicros} + ${costMicros} of ${limitMicros}`);
}

/** In any t seconds at most limit + limit × t calls pass; only calls that lie wholly in that time count. */
function checkRate(key: string, perSecond: number, lines: Verified[], say: Say): void {
  const passed = lines.filter((line) => line.status === 'VALID').toSorted((a, b) => a.to - b.to);
  for (const { from } of passed) {
    let count = 0;
    for (const line of passed) {
      if (line.from < from) continue;
      count++;
      const most = perSecond + (perSecond * (line.to - from)) / 1000;
      if (count <= most) continue;
      return say('no limit is passed', `${key}: ${count} VALID in ${Math.round(line.to - from)} ms`);
    }
  }
}
