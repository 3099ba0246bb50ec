import { PER_PATTERN } from '../../shared/contract/limits.ts';
import { formatSum } from '../../shared/values/credits.ts';

// What the forms have in common: reading one field of a key.

/** Reads the first of these fields that has a value, and knows which were asked for. */
export type Of = {
  (...names: string[]): string | undefined;
  /** A field as it stands in the file. */
  raw(name: string): unknown;
  /** The names of fields that say something, were not asked for, and are none of these. */
  others(aside: readonly string[]): string[];
};

/** Reads fields of a line of CSV, or of a JSON object. Databases write NULL in three ways. */
export function reader(fields: Record<string, unknown>): Of {
  const asked = new Set<string>();
  const of = (...names: string[]) => {
    for (const name of names) asked.add(name);
    return names.map((name) => textIn(fields[name])).find((text) => text !== undefined);
  };
  return Object.assign(of, {
    raw(name: string) {
      asked.add(name);
      return fields[name];
    },
    others: (aside: readonly string[]) =>
      Object.keys(fields).filter(
        (name) => !asked.has(name) && !aside.includes(name) && !nothing.includes(textIn(fields[name]) ?? ''),
      ),
  });
}

function textIn(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return ['', '\\N', 'NULL'].includes(text) ? undefined : text;
}

const nothing = ['', '{}', '[]', '{"{}"}', 'null', 'f', 'false', '0'];

/** A field of an item, unless it has no value. */
export function given(name: string, value: unknown): Record<string, unknown> {
  return value === undefined ? {} : { [name]: value };
}

const LONGEST_NAME = 128;

/** The first of these texts as a name, which ends in a whole character. */
export function nameOf(...names: unknown[]): string {
  const name = names.find((one): one is string => typeof one === 'string' && one !== '')!;
  // oxlint-disable-next-line no-control-regex -- they are what a name may not hold
  const shown = name.replace(/[\u0000-\u001f\u007f]/g, ' ');
  return shown.slice(0, LONGEST_NAME).replace(/[\ud800-\udbff]$/, '');
}

/** A flag. A guess would enable a key that is blocked, or the other way round. */
export function booleanOf(column: string, text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined;
  if (['1', 't', 'true', 'y', 'yes', 'on'].includes(text.toLowerCase())) return true;
  if (['0', 'f', 'false', 'n', 'no', 'off'].includes(text.toLowerCase())) return false;
  throw new Error(`${column} is neither true nor false`);
}

/** The JSON object in a column, unless it is empty. */
export function objectOf(column: string, text: string | undefined): Record<string, unknown> | undefined {
  return text === undefined || text === '{}' || text === 'null' ? undefined : objectIn(column, text);
}

/** The JSON object in a text. The message of what it throws does not repeat the text, which may hold a secret. */
export function objectIn(what: string, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Told below.
  }
  return asObject(what, value);
}

/** A value as an object, if it is one. */
export function asObject(what: string, value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new Error(`${what} is no JSON object`);
}

// As RFC 3339 and databases write it: a day, a time of day, an offset.
const instant = /^(\d{4}-\d\d-(\d\d))(?:[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(?:[Zz]|([+-]\d\d)(?::?(\d\d))?)?)?$/;

/** Milliseconds since 1970 of a date of ISO 8601, in UTC unless it has an offset; or of so many digits as Unix times have. */
export function timeOf(column: string, text: string | undefined): number | undefined {
  // As Postgres writes what never comes.
  if (text === undefined || text === 'infinity') return undefined;
  if (/^\d{10}$/.test(text)) return Number(text) * 1_000;
  if (/^\d{13}$/.test(text)) return Number(text);
  const [, day, ofMonth, time = '00:00', hours = '+00', minutes = '00'] = instant.exec(text) ?? [];
  const at = Date.parse(`${day}T${time}${hours}:${minutes}`);
  // February 30 would be a day of March.
  const isDay = new Date(`${day}T00:00Z`).getUTCDate() === Number(ofMonth);
  if (Number.isNaN(at) || !isDay)
    throw new Error(`${column} is no time such as 2027-01-31T12:00:00Z, nor Unix seconds or milliseconds`);
  return at;
}

const DECIMALS = 18;
const amount = /^(\d{1,30})(?:\.(\d{0,60}))?(?:[eE]([+-]?\d{1,2}))?$/;

/** An amount in parts of 10^-18: databases write floating-point numbers as 334, 0.000021 or 2.1e-05. */
export function amountOf(column: string, text: string): bigint {
  const [, whole, fraction = '', exponent = '0'] = amount.exec(text) ?? [];
  if (whole === undefined) throw new Error(`${column} is no amount such as 12.5`);
  const shift = DECIMALS - fraction.length + Number(exponent);
  const digits = BigInt(whole + fraction);
  return shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift);
}

/** An amount as credits, rounded down to six decimals; nothing for one below 0. */
export function creditsOf(parts: bigint): string {
  return formatSum(parts <= 0n ? 0n : parts / 10n ** BigInt(DECIMALS - 6));
}

const units = { day: 86_400_000, hour: 3_600_000, minute: 60_000, second: 1_000 };

/** A limit on requests in so many milliseconds, as fields of an item; undefined where keytally has no such window. */
export function limitOf(name: string, count: string, durationMs: string): Record<string, unknown> | undefined {
  const limit = Number(count);
  if (!Number.isInteger(limit) || limit < 1) throw new Error(`${name} is no number of requests`);
  if (durationMs === '1000') return { rateLimitPerSecond: limit };
  const windows = Object.entries(units).map(([unit, ms]) =>
    Number(durationMs) === ms ? unit : `${Number(durationMs) / ms} ${unit}s`,
  );
  const per = windows.find((window) => new RegExp(PER_PATTERN).test(window));
  return per === undefined ? undefined : { limits: [{ name, unit: 'requests', limit, per }] };
}
