import { parseCredits } from '../../../shared/values/credits.ts';
import type { Curve } from './curve.ts';

/** A customer of the demo's workspace: a billing record, and the keys that draw on it. */
export type Customer = {
  workspaceId: string;
  externalMeterId: string;
  customerId: string;
  billingId: string;
  /** What its calls are counted as, most of them as the first. */
  usageNames: readonly [string, ...string[]];
  /** What each call costs. */
  cost: string;
  keys: { id: string; key: string }[];
  past: Past;
};

/** What a customer is said to have called on the days before. */
export type Past = {
  callsPerDay: number;
  curve: Curve;
  /** Calls that were refused besides: of which of its keys, why, and how many for each that was not. */
  refused: readonly { key: number; status: string; reason: string; limit: string; share: number }[];
};

// Multiples of it lie evenly between 0 and 1.
const GOLDEN = 0.6180339887;

/** How many micro-credits a customer used on so many days before. */
export function usedOn(days: number, { past, cost }: Pick<Customer, 'past' | 'cost'>): number {
  return days * past.callsPerDay * parseCredits(cost)!;
}

/** A number between 0 and 1; those of the first n calls lie evenly, and are the same in each run. */
export function shareOf(call: number): number {
  return (call * GOLDEN) % 1;
}

/** What a call of a customer is counted as, by its number. */
export function usageNameOf({ usageNames }: Pick<Customer, 'usageNames'>, call: number): string {
  return usageNames[Math.floor(shareOf(call) ** 2 * usageNames.length)]!;
}
