import { PREFIX_PATTERN } from '../../shared/values/key-text.ts';
import { amountOf, booleanOf, creditsOf, given, limitOf, nameOf, objectOf, reader, timeOf, type Of } from './fields.ts';
import type { Budget, Read } from './rows.ts';

const ids = ['apiId', 'key_auth_id', 'workspace_id', 'for_workspace_id', 'pending_migration_id', 'migrationId'];
const times = ['created_at', 'created_at_m', 'updated_at_m', 'last_used_at', 'last_refill_at', 'ratelimit_async'];

/** A key of Unkey: the columns of its table of keys, or the fields of its migrations. A hash is the SHA-256 in base64. */
export const unkey = {
  columns: ['hash', 'key', 'plaintext'],
  lists: ['', 'keys', 'data'],
  aside: [...ids, ...times],
  read(of: Of, now: number): Read {
    if (of('deleted_at_m', 'deleted_at')) return { skipped: 'it is deleted' };
    const start = of('start') ?? '';
    const prefix = of('prefix') ?? start.slice(0, Math.max(0, start.lastIndexOf('_')));
    const [plain, value] = [of('key', 'plaintext'), hashIn(of) ?? ''];
    const { limits, lost } = limitsOf(of);
    const budget = budgetOf(creditFields(of), now);
    return {
      item: {
        name: nameOf(of('name'), of('start'), 'Unkey key'),
        ...(plain ? { key: plain } : { hash: { algorithm: 'sha256', encoding: 'base64', value } }),
        ...(new RegExp(PREFIX_PATTERN).test(prefix) && { prefix }),
        ...given('customerId', of('external_id', 'externalId', 'owner_id', 'ownerId', 'identity_id')),
        ...given('expiresAt', timeOf('expires', of('expires'))),
        ...given('metadata', objectOf('meta', of('meta'))),
        ...limits,
        enabled: booleanOf('enabled', of('enabled')) ?? true,
      },
      ...given('id', of('id')),
      ...(budget && { budget }),
      lost,
    };
  },
};

function hashIn(of: Of): string | undefined {
  const text = of('hash');
  // Older migrations say its form beside it.
  return text?.startsWith('{') ? reader(objectOf('hash', text) ?? {})('value') : text;
}

/** What is left of a key and how it is refilled, of each of the three places where Unkey has it. */
function creditFields(of: Of): Of {
  const inside = objectOf('credits', of('credits'));
  const credits = inside ? reader(inside) : of;
  const refill = reader(objectOf('refill', credits('refill')) ?? {});
  return reader({
    remaining_requests: credits('remaining_requests', 'remaining'),
    refill_amount: credits('refill_amount') ?? refill('amount'),
    refill_interval: credits('refill_interval') ?? refill('interval'),
    refill_day: credits('refill_day') ?? refill('refillDay'),
  });
}

/** One credit is one request. What is left lasts until the next refill, which is of a day or a month in UTC. */
function budgetOf(of: Of, now: number): Budget | undefined {
  const [remaining, amount] = [of('remaining_requests'), of('refill_amount')];
  const fields = [...(remaining ? ['remaining_requests'] : []), ...(amount ? ['refill_amount'] : [])];
  if (fields.length === 0) return undefined;
  const left = remaining && creditsOf(amountOf('remaining_requests', remaining));
  if (!amount) return { fields, billing: { credits: left } };
  const interval = of('refill_interval') ?? (of('refill_day') ? 'monthly' : 'daily');
  if (interval !== 'daily' && interval !== 'monthly') return { fields };
  const anchorAt = nextRefill(now, interval === 'daily' ? undefined : Number(of('refill_day') ?? 1));
  const every = interval === 'daily' ? 'day' : 'month';
  const credits = creditsOf(amountOf('refill_amount', amount));
  const first = left === undefined ? {} : { credits: left, expiresAt: anchorAt };
  return { fields, billing: { ...first, ...(credits !== '0' && { schedule: { credits, every, anchorAt } }) } };
}

/** The next midnight in UTC, or that of the next such day of a month, which a shorter month's last one stands for. */
function nextRefill(now: number, day: number | undefined): number {
  const today = Temporal.Instant.fromEpochMilliseconds(now).toZonedDateTimeISO('UTC').startOfDay();
  if (day === undefined) return today.add({ days: 1 }).epochMilliseconds;
  if (!Number.isInteger(day) || day < 1 || day > 31) throw new Error('refill_day is no day of a month');
  const [first, second] = [today, today.add({ months: 1 })].map((one) => one.with({ day }).epochMilliseconds);
  return first! > now ? first! : second!;
}

function limitsOf(of: Of): { limits: Record<string, unknown>; lost: string[] } {
  const old = objectOf('ratelimit', of('ratelimit'));
  const [limit, duration, list] = [of('ratelimit_limit'), of('ratelimit_duration'), of.raw('ratelimits')];
  const all = [...(limit ? [{ limit, duration }] : []), ...(old ? [old] : []), ...(Array.isArray(list) ? list : [])];
  const found = all.map((one: Record<string, unknown>) => {
    const ofOne = reader(one);
    return limitOf(ofOne('name') ?? 'ratelimit_limit', ofOne('limit') ?? '', ofOne('duration', 'refillInterval') ?? '');
  });
  const limits = found.flatMap((one) => (one?.['limits'] as object[] | undefined) ?? []);
  const perSecond = found.find((one) => one?.['rateLimitPerSecond'] !== undefined);
  return {
    limits: { ...perSecond, ...(limits.length > 0 && { limits }) },
    lost: found.includes(undefined) ? ['ratelimit_limit'] : [],
  };
}
