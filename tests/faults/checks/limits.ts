import { formatCredits } from '../../../shared/values/credits.ts';
import { grouped, spansOf, type Case, type Say } from './case.ts';
import type { Verified } from '../history.ts';

/** No limit on credits, overage or rate was passed, and no call was refused below its limit. */
export function checkLimits(one: Case, say: Say): void {
  for (const line of one.verified) checkCredits(line, say);
  // Credits that a lost Redis had counted can be spent once more until their events are in the books.
  const mayBeLate = one.emptied.length > 0 || one.restored.length > 0 || spansOf(one, 'lagged').length > 0;
  for (const { billing, usedMicros, limitMicros } of one.records) {
    if (usedMicros > limitMicros && !mayBeLate)
      say('no limit is passed', `${billing} used ${formatCredits(usedMicros)} of ${formatCredits(limitMicros)}`);
  }
  const rates = new Map(
    one.changed.filter((line) => line.what === 'key.create').map(({ of, detail }) => [of, detail.ratePerSecond]),
  );
  for (const [key, lines] of grouped(one.verified, (line) => line.key)) {
    const perSecond = rates.get(key);
    if (perSecond) checkRate(key, perSecond, lines, say);
    else if (lines.some((line) => line.status === 'RATE_LIMITED'))
      say('no limit is invented', `${key} has no rate limit and was RATE_LIMITED`);
  }
}

function checkCredits(line: Verified, say: Say): void {
  const { call, status, costMicros, usedMicros = 0, limitMicros = Infinity } = line;
  // The answer to a repeated call may have a later balance.
  if (status === 'VALID' && costMicros > 0 && usedMicros > limitMicros && !line.idempotent)
    say('no limit is passed', `${call} was VALID at ${usedMicros} of ${limitMicros}`);
  if (status === 'USAGE_LIMITED' && usedMicros + costMicros <= limitMicros)
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
