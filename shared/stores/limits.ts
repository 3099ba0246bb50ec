import { hash } from 'node:crypto';
import type { Limit } from '../contract/limits.ts';
import { memoize } from '../runtime/memoize.ts';
import type { CalendarUnit } from '../values/calendar.ts';

// Limits over windows as they stand in Postgres and in packed records, behind what a record has in their place: `100@[…]` of a
// key or a workspace with a rate, `@[…]` without one.

/** A window that slides: its length, the units of time in which Redis counts it, and what says so there (lua/parts/limits.lua). */
export type SlidingWindow = { ms: number; unitMicros: number; mark: number };
/** A window of the calendar of a zone: so many of a unit. */
export type CalendarWindow = { unit: CalendarUnit; count: number };

const MICROS = { second: 1_000_000, minute: 60_000_000, hour: 3_600_000_000 } as const;
const HOUR = 36_000_000;
const COUNTED = 1e11;

/** The window of a limit, by its `per`: `hour`, `5 minutes`, `year`. */
export const windowOf = memoize((per: string): SlidingWindow | CalendarWindow => {
  const [, count = '1', unit = ''] = /^(?:(\d+) )?([a-z]+?)s?$/.exec(per)!;
  if (!Object.hasOwn(MICROS, unit)) return { unit: unit as CalendarUnit, count: Number(count) };
  const micros = Number(count) * MICROS[unit as keyof typeof MICROS];
  // The script's products stay exact below 9.4e7 units.
  const unitMicros = micros <= MICROS.minute ? 1 : micros <= MICROS.hour ? 100 : 1_000;
  const mark = per === 'hour' ? HOUR : per === unit ? micros : COUNTED + micros;
  return { ms: micros / 1_000, unitMicros, mark };
});

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
