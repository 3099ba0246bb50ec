import { hash } from 'node:crypto';
import type { Limit } from '../contract/limits.ts';

// Limits over windows as they stand in Postgres and in packed records, behind what a record has in their place: `100@[…]` of a
// key or a workspace with a rate, `@[…]` without one.

/** The windows that slide, with their length in ms and in the units in which Redis counts their time. */
export const slidingWindows = {
  second: { ms: 1_000, units: 1_000_000 },
  minute: { ms: 60_000, units: 60_000_000 },
  hour: { ms: 3_600_000, units: 36_000_000 },
} as const;
export type SlidingUnit = keyof typeof slidingWindows;

/** Whose limit it is: that of a workspace counts for each of its keys. */
export type LimitPlace = 'key' | 'workspace' | 'billing';

/** Where a field of a record ends and its limits begin. */
const LIMITS = '@';

/** Packs limits behind what stands before them; `null`: none of its own, which for a key means those of its workspace. */
export function withLimits(before: string | number, limits: readonly Limit[] | null): string | number {
  if (limits === null) return before;
  return `${before}${LIMITS}${limits.length === 0 ? '' : JSON.stringify(limits)}`;
}

/** The same of a workspace or a billing record, where none is the same as an empty list. */
export function withOwnLimits(before: string | number, limits: readonly Limit[] | null): string | number {
  return withLimits(before, limits?.length ? limits : null);
}

/** What stands before the limits. */
export function beforeLimits(field: string): string {
  const at = field.indexOf(LIMITS);
  return at < 0 ? field : field.slice(0, at);
}

/** Whether a field of a record has limits of its own. */
export function hasLimits(field: string): boolean {
  return field.includes(LIMITS);
}

/**
 * The name of the counter of a limit. A changed amount keeps the count, and so does whether it only watches; anything else
 * begins anew.
 */
export function counterName(place: LimitPlace, { name, unit, per, timezone = 'UTC', usageName }: Limit): string {
  return hashName(JSON.stringify([place, name, unit, per, timezone, usageName ?? null]));
}

/** A short name of a text, for those of one key: 48 bits of SHA-256. */
export function hashName(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, 8);
}
