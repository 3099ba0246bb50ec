import { isUndecided, spansOf, type Case, type Say } from './case.ts';

/** While a record's counters can't be read, its calls get 503: nothing else about them would be true. */
export function checkPoisoned(one: Case, say: Say): void {
  for (const { billing, from, to } of spansOf(one, 'poisoned')) {
    const during = one.verified.filter((line) => line.billing === billing && from <= line.from && line.to <= to);
    for (const line of during.filter((line) => !isUndecided(line)))
      say(
        'what is unknown is 503',
        `${line.call}: ${billing} can't be read, and the answer is ${line.status ?? line.http}`,
      );
  }
}
