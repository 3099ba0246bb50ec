import type { Limit } from '../contract/limits.ts';
import type { LimitAlert } from '../stores/account-settings.ts';
import { END } from '../stores/fields.ts';
import { endsOf, headOf, knownLimits, packSettings, type KnownLimit } from '../stores/known-limits.ts';
import type { LimitPlace } from '../stores/limits.ts';

// Limits over windows of a key and its billing record: what verify.lua is sent of them, and what it answers. It counts a million
// for a request, so all amounts are micro-credits here.

/** The limits of a key and its billing record. */
export type KnownLimits = {
  list: KnownLimit[];
  /** What `ratePerSecond` of the lookup is, as it is sent along. */
  rateField: string;
  /** Until when, in ms, what is sent holds; 0: always. */
  holdsUntilMs: number;
  /** What stands at the end of each call: of one under a usage name, those that count others are marked. */
  packedFor(usageName: string): string;
};

const NOT_COUNTED = '-';

/**
 * Reads limits as the script found them (`100@k[…]\x1d[…]`), and computes their windows at a time, and when alerts on those of the
 * record are crossed.
 */
export function readLimits(rateField: string, nowMs: number, alerts: readonly LimitAlert[] = []): KnownLimits {
  const at = rateField.indexOf('@');
  const [ofKey = '', ofRecord = ''] = rateField.slice(at + 1).split('\x1d');
  const keyPlace = ofKey.startsWith('k') ? 'key' : 'workspace';
  const list = [...placed(keyPlace, ofKey.slice(1), nowMs), ...placed('billing', ofRecord, nowMs)];
  const ends = endsOf(list);
  const places = [list.filter(({ on }) => on !== 'billing'), list.filter(({ on }) => on === 'billing')];
  const named = list.some(({ usageName }) => usageName !== undefined);
  const heads = places.map(headOf);
  const settings = packAlerts(alerts, places[1]!) + END + places.map(packSettings).join('');
  const pack = (usageName: string) =>
    places
      .map((limits, i) => heads[i]! + END + limits.map((one) => countedAs(one, usageName)).join('') + END)
      .join('') + settings;
  const unnamed = pack('');
  return {
    list,
    rateField: `@${String(unnamed.length).padStart(3, '0')}${rateField.slice(0, at)}`,
    holdsUntilMs: ends.length === 0 ? 0 : Math.min(...ends),
    packedFor: (usageName) => (named ? pack(usageName) : unnamed),
  };
}

function placed(on: LimitPlace, text: string, nowMs: number): KnownLimit[] {
  return text === '' ? [] : knownLimits(on, JSON.parse(text) as Limit[], nowMs);
}

/** Alerts on windows of the calendar: of each which limit and at how much it is crossed, which alert it is, and its percentage. */
function packAlerts(alerts: readonly LimitAlert[], limits: readonly KnownLimit[]): string {
  const known = alerts.flatMap(({ place, percent, limit: name }) => {
    const i = limits.findIndex((one) => one.name === name && one.span);
    if (i < 0) return [];
    const crossedAt = (BigInt(limits[i]!.limitMicros) * BigInt(percent) + 99n) / 100n;
    return [`${i + 1}:${crossedAt}:${place}:${percent} `];
  });
  return known.join('');
}

function countedAs({ unit, shadow, usageName }: KnownLimit, ofCall: string): string {
  if (usageName !== undefined && usageName !== ofCall) return NOT_COUNTED;
  const letter = unit === 'requests' ? 'r' : 'c';
  return shadow ? letter.toUpperCase() : letter;
}
