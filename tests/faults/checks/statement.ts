import { grouped, lossesOf, spansOf, type Case, type Say } from './case.ts';
import type { Verified } from '../history.ts';

type Debit = Verified & { usedMicros: number };

/**
 * The answers of a record are lines of one statement: each VALID call took its cost from the balance that another one left, no
 * two took the same credits, and no later call saw an earlier balance.
 */
export function checkStatement(one: Case, say: Say): void {
  // Lost credits can be taken again, so a loss divides the answers into two statements.
  const cuts = [
    ...[...one.emptied, ...one.restored].map(({ at }) => at),
    ...spansOf(one, 'lagged')
      .map(({ from, to }) => [from, to])
      .flat(),
  ];
  const parts = [0, ...cuts.toSorted((a, b) => a - b), Infinity];
  // What a lost Redis forgot of captures, settling takes back: the balance falls by that at any time.
  const corrected = new Set(lossesOf(one).length > 0 ? one.held.map(({ billing }) => billing) : []);
  for (const [billing, lines] of grouped(one.verified.filter(isDebit), (line) => line.billing!)) {
    if (corrected.has(billing)) continue;
    for (const [i, from] of parts.slice(0, -1).entries()) {
      const part = lines.filter((line) => line.from >= from && line.to <= parts[i + 1]!);
      checkTaken(billing, part, say);
      checkOrder(billing, part, say);
    }
  }
}

function checkTaken(billing: string, lines: Debit[], say: Say): void {
  const byBalance = lines.filter((line) => line.costMicros > 0).toSorted((a, b) => a.usedMicros - b.usedMicros);
  for (const [i, line] of byBalance.entries()) {
    const before = byBalance[i - 1];
    const began = line.usedMicros - line.costMicros;
    if (began < (before?.usedMicros ?? 0))
      say('no credits are taken twice', `${billing}: ${line.call} and ${before?.call ?? 'none'} took the same credits`);
  }
}

function checkOrder(billing: string, lines: Debit[], say: Say): void {
  const byEnd = lines.toSorted((a, b) => a.to - b.to);
  let ended = 0;
  let highest: Debit | undefined;
  for (const line of lines) {
    for (; byEnd[ended]!.to < line.from; ended++) {
      if (!highest || byEnd[ended]!.usedMicros > highest.usedMicros) highest = byEnd[ended];
    }
    if (highest && line.usedMicros - line.costMicros < highest.usedMicros)
      say('a balance never goes back', `${billing}: ${line.call} was asked after ${highest.call} and saw less used`);
  }
}

// The answer to a repeated call has the balance of that moment, not the one after its own debit.
function isDebit(line: Verified): line is Debit {
  return line.status === 'VALID' && line.usedMicros !== undefined && !line.idempotent;
}
