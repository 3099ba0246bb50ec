import { casesOf, type Case, type Violation } from './case.ts';
import { checkBooks } from './books.ts';
import { checkChanges } from './changes.ts';
import { checkGrants } from './grants.ts';
import { checkHolds } from './holds.ts';
import { checkKeys } from './keys.ts';
import { checkLimits } from './limits.ts';
import { checkPoisoned } from './poisoned.ts';
import { checkFinance } from './finance.ts';
import { checkStatement } from './statement.ts';
import { checkWindows } from './windows.ts';
import { checkTold } from './told.ts';
import { checkTime, hadTime, rulesOfTime } from './time.ts';
import type { Line } from '../history.ts';

const checks = [
  checkBooks,
  checkStatement,
  checkFinance,
  checkHolds,
  checkGrants,
  checkLimits,
  checkWindows,
  checkKeys,
  checkChanges,
  checkPoisoned,
  checkTold,
  checkTime,
];

/** Everything that was wrong in a history, judged only by what clients saw and what the service says at the end. */
export function check(lines: readonly Line[]): Violation[] {
  return casesOf(lines).flatMap(checkCase);
}

/** What was wrong in one phase. */
export function checkCase(one: Case): Violation[] {
  const violations: Violation[] = [];
  const { phase, fault } = one;
  const say = (rule: string, text: string) => {
    if (hadTime(one) || !rulesOfTime.has(rule)) violations.push({ phase, fault, rule, text });
  };
  for (const checkOne of checks) checkOne(one, say);
  return violations;
}
