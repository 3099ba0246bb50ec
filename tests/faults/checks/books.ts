import { formatCredits } from '../../../shared/values/credits.ts';
import { grouped, isLasting, isUndecided, mayBeUndone, spansOf, type Case, type Say } from './case.ts';
import type { Record_, Verified } from '../history.ts';

/** How often a call may be in the books. */
type Bounds = { least: number; most: number };

// The outbox was full, or too many calls came at once: Redis was not asked, or refused itself.
const SURE_OF_NOTHING = [50306, 50308];

/**
 * Balance = sum of distinct events = what /usage says. Every call that a client saw as VALID was debited once, an undecided
 * call at most once, a refused call never.
 */
export function checkBooks(one: Case, say: Say): void {
  for (const record of one.records) {
    const { billing, rows, usedMicros } = record;
    const inBooks = rows.reduce((sum, row) => sum + row.micros, 0);
    if (inBooks !== usedMicros) {
      const [balance, books] = [usedMicros, inBooks].map(formatCredits);
      say('balance = books', `${billing}: the balance is ${balance}, the books have ${books}`);
    }
    const calls = grouped(
      one.verified.filter((line) => line.billing === billing),
      (line) => line.call,
    );
    for (const [call, attempts] of calls) checkCall(one, call, attempts, eventsOf(record, call), say);
    const adjustments = checkAdjustments(one, record, say);
    const holds = new Set(one.held.filter((line) => line.billing === billing).map(({ call }) => call));
    // A void is an adjustment of nothing.
    const debited = rows.filter(({ micros, events }) => micros !== 0 || events > 0);
    for (const { name } of debited) {
      if (!calls.has(name) && !adjustments.has(name) && !holds.has(name))
        say('debits ≤ VALID + undecided', `${billing}: the books have ${name}, which no client called`);
    }
    if (record.found === 'UNKNOWN') {
      say('the service answers in the end', `${billing}: it never said whether the record is exact, nor what it lost`);
      continue;
    }
    if (record.found !== 'EXACT') say('the service finds itself exact', `${billing} is reported as ${record.found}`);
    const lost = [...calls].filter(
      ([call, attempts]) =>
        attempts.some((line) => line.status === 'VALID' && !mayBeUndone(one, line)) &&
        eventsOf(record, call).events === 0,
    );
    if (lost.length > record.reportedLost)
      say('losses are reported', `${billing} lost ${lost.length} VALID calls, and ${record.reportedLost} are reported`);
  }
}

/** Every answered adjustment is in the books once, whatever was lost. Gives the names of all adjustments. */
function checkAdjustments(one: Case, { billing, rows }: Record_, say: Say): Set<string> {
  const lines = one.changed.filter((line) => line.what === 'billing.adjust' && line.of === billing);
  const adjustments = grouped(lines, (line) => line.detail.usageName ?? '');
  for (const [name, attempts] of adjustments) {
    const { amountMicros = 0 } = attempts[0]!.detail;
    const booked = rows.filter((row) => row.name === name).reduce((sum, row) => sum + row.micros, 0);
    const mayBeThere = attempts.some((line) => isUndecided(line) || (line.http ?? 500) < 300);
    const isThere = attempts.some((line) => isLasting(one, line));
    const mayBe = mayBeThere ? [amountMicros, ...(isThere ? [] : [0])] : [0];
    if (!mayBe.includes(booked))
      say(
        'an adjustment counts once',
        `${billing}: ${name} of ${formatCredits(amountMicros)} made ${formatCredits(booked)}`,
      );
  }
  return new Set(adjustments.keys());
}

function checkCall(one: Case, call: string, attempts: Verified[], found: { events: number; micros: number }, say: Say) {
  const { events, micros } = found;
  const { least, most } = bounds(one, call, attempts);
  const said = attempts.map((line) => line.status ?? line.code ?? line.http ?? line.error).join(', ');
  if (events < least) say('every VALID is debited once', `${call} was answered ${said} and is not in the books`);
  else if (events > most && most === 0) say('a refused call costs nothing', `${call} was answered ${said} and debited`);
  else if (events > most)
    say('every VALID is debited once', `${call} was answered ${said} and debited ${events} times`);
  if (micros !== events * attempts[0]!.costMicros)
    say('every VALID is debited once', `${call}: ${events} events of ${attempts[0]!.costMicros} make ${micros}`);
}

function bounds(one: Case, call: string, attempts: Verified[]): Bounds {
  const valid = attempts.filter((line) => line.status === 'VALID');
  const undecided = attempts.filter((line) => isUndecided(line) && !isSureToCostNothing(one, line));
  const [first, last] = [attempts[0]!.from, attempts.at(-1)!.to];
  const duringCall = (at: number) => first <= at && at <= last;
  const mayBeLost =
    one.emptied.some(({ held }) => held.includes(call)) ||
    valid.every((line) => mayBeUndone(one, line)) ||
    spansOf(one, 'lagged').some(({ from, to }) => valid.some((line) => line.to >= from && line.from <= to));
  // Only Redis has the Idempotency-Keys of verifications, so they are lost with it.
  const mayBeForgotten =
    attempts.length > 1 &&
    ([...one.emptied, ...one.restored].some(({ at }) => duringCall(at)) ||
      spansOf(one, 'lagged').some(({ to }) => duringCall(to)));
  const once = valid.length > 0 || undecided.length > 0 ? 1 : 0;
  return { least: valid.length > 0 && !mayBeLost ? 1 : 0, most: once && mayBeForgotten ? 2 : once };
}

// Calls that were refused while Redis was frozen: their script must not run when Redis goes on.
function isSureToCostNothing(one: Case, line: Verified): boolean {
  if (line.code !== undefined && SURE_OF_NOTHING.includes(line.code)) return true;
  const frozen = spansOf(one, 'redis-frozen');
  return line.http === 503 && frozen.some(({ from, to }) => from <= line.from && line.to <= to);
}

function eventsOf({ rows }: Record_, call: string): { events: number; micros: number } {
  const ofCall = rows.filter((row) => row.name === call);
  return {
    events: ofCall.reduce((sum, row) => sum + row.events, 0),
    micros: ofCall.reduce((sum, row) => sum + row.micros, 0),
  };
}
