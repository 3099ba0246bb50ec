import { Type, type Static } from 'typebox';
import { isTimezone } from '../values/calendar.ts';
import { CREDITS_PATTERN, parseCredits } from '../values/credits.ts';
import { invalidField } from './errors.ts';
import { instant, named, object, textOf, usageName, plainText } from './schema-kinds.ts';

// Limits over windows: of a key, of the keys of a workspace, and of a billing record.

/** The most that a key, the keys of a workspace, or a billing record may have. */
export const MOST_LIMITS = 4;
/** `rateLimitPerSecond` is one more of a key's limits, under this name. */
export const RATE_LIMIT_NAME = 'rateLimitPerSecond';

const MOST_REQUESTS = 9_000_000_000;
/** The name of a limit. */
export const limitName = textOf(128, 'name, unique among the limits of its place', 'daily');
const amount = (description: string, example: number | string) =>
  Type.Unsafe<number | string>({
    type: ['integer', 'string'],
    minimum: 0,
    maximum: MOST_REQUESTS,
    pattern: CREDITS_PATTERN,
    description,
    examples: [example],
  });
const on = Type.Enum(['key', 'workspace', 'billing'], { description: 'whose limit it is' });

// A year has no more than one window in it, and a number of weeks or months none that people would expect.
const N_TO_59 = '([2-9]|[1-5][0-9])';
/** What a window of a limit may be. */
export const PER_PATTERN = `^(second|minute|hour|day|week|month|year|${N_TO_59} (seconds|minutes)|([2-9]|1[0-9]|2[0-3]) hours|([2-9]|[12][0-9]|3[01]) days)$`;

export const limit = named(
  'Limit',
  object({
    name: limitName,
    unit: Type.Enum(['requests', 'credits'], { description: 'what it counts' }),
    limit: amount(
      `most of it in the window: of requests a whole number from 1 to ${MOST_REQUESTS}, of credits decimal text above 0`,
      10_000,
    ),
    per: Type.String({
      maxLength: 16,
      pattern: PER_PATTERN,
      description:
        'its window: second, minute and hour, or 2 to 59 seconds or minutes and 2 to 23 hours (`5 minutes`), slide; day, week (from Monday), month and year are those of the calendar, and 2 to 31 days (`10 days`) are counted from 1970-01-01',
      examples: ['day'],
    }),
    timezone: Type.Optional(
      plainText(64, 'the zone of the calendar, by its IANA name; without one UTC', 'Europe/Berlin'),
    ),
    usageName: Type.Optional(usageName('counts only calls under this name')),
    shadow: Type.Optional(
      Type.Boolean({ description: 'whether it only watches: it is counted and told, and refuses nothing' }),
    ),
  }),
);
export type Limit = Static<typeof limit>;

export const limits = Type.Array(limit, {
  maxItems: MOST_LIMITS,
  description: 'limits over windows',
  examples: [[{ name: 'daily', unit: 'requests', limit: 10_000, per: 'day', timezone: 'Europe/Berlin' }]],
});

/** The limits of a verification after it, section "Limits over any window" of the contract. */
export const limitStates = Type.Array(
  named(
    'LimitState',
    object({
      on,
      name: limitName,
      remaining: amount('what is left: requests as a number, credits as decimal text', 9_999),
      resetAt: instant('when the allowance is whole again'),
      wouldRefuse: Type.Optional(
        Type.Boolean({ description: 'of a limit that only watches: whether it would have refused this call' }),
      ),
    }),
  ),
  { maxItems: 2 * MOST_LIMITS + 1, description: 'the limits over windows of the key and its billing record' },
);
export const limitedByLimit = named(
  'LimitedBy',
  object({
    on,
    name: limitName,
    limit: amount('the limit as it is set', 10_000),
    resetAt: Type.Optional(
      instant('when the allowance is whole again; absent where the call costs more than all of it'),
    ),
    retryAt: Type.Optional(instant('when a call like this one may pass it; absent likewise')),
  }),
);

/** Throws 400 where limits are not what a schema can tell: names, amounts by their unit, and zones. */
export function checkLimits(field: string, limits: readonly Limit[] | null | undefined): void {
  for (const [i, one] of (limits ?? []).entries()) {
    const wrong = wrongIn(one, limits!.slice(0, i));
    if (wrong) throw invalidField(`/${field}/${i}/${wrong[0]}`, wrong[1]);
  }
}

function wrongIn({ name, unit, limit, per, timezone }: Limit, before: Limit[]): [keyof Limit, string] | undefined {
  if (name === RATE_LIMIT_NAME) return ['name', "is the name of the key's own rate limit; choose another"];
  if (before.some((other) => other.name === name)) return ['name', 'is the name of another limit of the list'];
  if (unit === 'requests' && !(typeof limit === 'number' && limit > 0))
    return ['limit', `must be a whole number from 1 to ${MOST_REQUESTS}`];
  if (unit === 'credits' && !(typeof limit === 'string' && (parseCredits(limit) ?? 0) > 0))
    return ['limit', 'must be decimal text above 0, at most 9000000000, with at most six decimals'];
  if (timezone === undefined) return undefined;
  if (/(second|minute|hour)s?$/.test(per)) return ['timezone', `is for days, week, month and year; ${per} slides`];
  return isTimezone(timezone) ? undefined : ['timezone', 'must be the IANA name of a time zone, such as Europe/Berlin'];
}
