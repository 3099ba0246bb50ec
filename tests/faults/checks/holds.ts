import { formatCredits } from '../../../shared/values/credits.ts';
import { grouped, isUndecided, lossesOf, mayBeUndone, spansOf, type Case, type Say } from './case.ts';
import type { Held, Record_, Settled } from '../history.ts';

/** A hold with all that was asked about it. */
type Life = { call: string; attempts: Held[]; settled: Settled[] };

/**
 * A hold costs what one capture said, or else what its end says; never both, and never twice. Once all have ended, nothing is
 * held. What a lost Redis forgot may be decided again, and what it loses is told.
 */
export function checkHolds(one: Case, say: Say): void {
  const settled = grouped(one.settled, (line) => line.call);
  for (const record of one.records) {
    if (record.heldMicros !== 0 && record.found !== 'UNKNOWN')
      say('held is 0 once all holds have ended', `${record.billing} holds ${formatCredits(record.heldMicros)}`);
    const ofRecord = grouped(
      one.held.filter(({ billing }) => billing === record.billing),
      (line) => line.call,
    );
    const lives = [...ofRecord].map(([call, attempts]) => ({ call, attempts, settled: settled.get(call) ?? [] }));
    const lost = lives.filter((life) => checkLife(one, life, record, say));
    if (lost.length > record.reportedLost && record.found !== 'UNKNOWN')
      say(
        'losses are reported',
        `${record.billing} lost ${lost.length} captures, and ${record.reportedLost} events are reported`,
      );
  }
}

/** Checks what a hold did cost; gives whether a capture of it was lost. */
function checkLife(one: Case, life: Life, record: Record_, say: Say): boolean {
  const { call } = life;
  const cost = record.rows.filter(({ name }) => name === call).reduce((sum, row) => sum + row.micros, 0);
  const captured = answered(life, 'capture').filter((line) => !mayBeUndone(one, line));
  const usages = new Set(captured.map((line) => line.micros!));
  if (usages.size > 1 && lossesOf(one).length === 0)
    say('a hold is captured once', `${call} was captured with ${[...usages].map(formatCredits).join(' and ')}`);

  const costs = costsOf(one, life);
  const isLost = captured.length > 0 && !usages.has(cost);
  const mayLose = captured.every((line) => mayBeLost(one, life, line));
  if (isLost && !mayLose)
    say('every capture is debited once', `${call} was captured with ${list(usages)} and costs ${formatCredits(cost)}`);
  else if (!costs.has(cost))
    say('a hold costs what it did cost', `${call} costs ${formatCredits(cost)}, and may cost ${list(costs)}`);
  return isLost && mayLose;
}

/** What a hold may have cost, by what was asked and answered. */
function costsOf(one: Case, life: Life): Set<number> {
  const { attempts, settled } = life;
  const [{ micros, onExpiry }] = attempts as [Held];
  const isOpened = attempts.some(({ status }) => status === 'VALID');
  if (!isOpened && !attempts.some(isUndecided)) return new Set([0]);
  const atEnd = onExpiry === 'charge' ? micros : 0;
  const captured = answered(life, 'capture').map((line) => line.micros!);
  const undecided = settled.filter((line) => line.what === 'capture' && isUndecided(line)).map((line) => line.micros!);
  const isReleased = answered(life, 'release').length > 0;
  // What was forgotten is decided again; a hold that was asked for twice is then there twice, and one of them ends by itself.
  if (lossesOf(one).length > 0) {
    const all = [0, atEnd, ...captured, ...undecided];
    return new Set(attempts.length > 1 ? [...all, ...all.map((cost) => cost + atEnd)] : all);
  }
  if (captured.length > 0) return new Set(captured);
  if (isReleased) return new Set([0, ...undecided]);
  return new Set([atEnd, ...undecided, ...(isOpened ? [] : [0])]);
}

/** Whether the debit of a capture that was answered may be lost with a Redis. */
function mayBeLost(one: Case, { call }: Life, { from, to }: Settled): boolean {
  return (
    one.emptied.some(({ held, at }) => held.includes(call) && from <= at) ||
    spansOf(one, 'lagged').some((span) => to >= span.from && from <= span.to)
  );
}

function answered({ settled }: Life, what: Settled['what']): Settled[] {
  return settled.filter((line) => line.what === what && line.http === 200);
}

function list(micros: Set<number>): string {
  return [...micros].map(formatCredits).join(' or ');
}
