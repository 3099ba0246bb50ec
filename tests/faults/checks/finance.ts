import { formatCredits } from '../../../shared/values/credits.ts';
import type { Case, Say } from './case.ts';

/**
 * Statements + what is late = usage = what the balance says was used, to the last decimal, for each record and so for a workspace.
 * All of a record's life lies in the days of its statement.
 */
export function checkFinance(one: Case, say: Say): void {
  for (const { billing, found, usedMicros, statement } of one.records) {
    if (found === 'UNKNOWN') continue;
    if (!statement) {
      say('the service answers in the end', `${billing} has no line in the statements of its workspace`);
      continue;
    }
    const { openingMicros, movedMicros, closingMicros, usageMicros, proof } = statement;
    const sums = { opening: openingMicros, movements: movedMicros, closing: closingMicros, usage: usageMicros };
    if (openingMicros !== 0 || [movedMicros, closingMicros, usageMicros].some((sum) => sum !== usedMicros)) {
      const told = Object.entries(sums).map(([name, sum]) => `${name} ${formatCredits(sum)}`);
      say('statements = usage = balance', `${billing}: used ${formatCredits(usedMicros)}, ${told.join(', ')}`);
    }
    if (found === 'EXACT' && proof !== 'EXACT')
      say('a statement is proved', `${billing} is EXACT, its statement ${proof}`);
  }
}
