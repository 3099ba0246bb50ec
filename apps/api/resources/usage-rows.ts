import { hash } from 'node:crypto';
import { Type, type Static } from 'typebox';
import { namedRecords } from '../../../shared/books/usage/export.ts';
import {
  countEvents,
  positionOf,
  readUsage,
  type Usage,
  type UsagePosition,
  type UsageStores,
} from '../../../shared/books/usage/query.ts';
import {
  keyFields,
  MOST_ROUTES,
  needsEvents,
  usageGroups,
  type UsageGroup,
  type UsageQuestion,
} from '../../../shared/books/usage/sql.ts';
import { ApiError, invalidField } from '../../../shared/contract/errors.ts';
import { id, named, object, count, plainText } from '../../../shared/contract/schema-kinds.ts';
import { externalMeterId } from '../../../shared/contract/schemas.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { formatSum } from '../../../shared/values/credits.ts';
import { present, type Values } from './rows.ts';
import {
  countPeriods,
  cutPeriods,
  dateOf,
  DAY_MS,
  QUARTER_MS,
  somePeriods,
  startTexts,
} from '../../../shared/values/periods.ts';

const MOST_EVENTS = 50_000_000;
const MOST_DAYS_OF_EVENTS = 92;
const HOUR_MS = 3_600_000;
// So many periods are read at first where many rows may be in one of them, then more and more.
const FIRST_PERIODS = 8;
// The books store no later day than number 65,535 from 1970.
const LAST_QUARTER = (65_536 * DAY_MS) / QUARTER_MS;

/** A row of usage by period. */
export const usageOfPeriod = named(
  'UsageOfPeriod',
  object({
    start: plainText(
      32,
      'where the period begins, also of one that is asked for in part, RFC 3339 with the offset of the time zone',
      '2026-11-01T00:00:00+01:00',
    ),
    billingId: Type.Optional(id('billing record', '; absent for keys without one')),
    externalMeterId: Type.Optional({ ...externalMeterId, description: "the record's external meter" }),
    usageName: Type.Optional(plainText(128, 'what is counted', 'tokens')),
    apiKeyId: Type.Optional(id('API key', '; absent for corrections')),
    route: Type.Optional(plainText(2_048, 'what the verifications named', 'GET /v1/models')),
    other: Type.Optional(
      Type.Boolean({ description: `true for all routes beyond the ${MOST_ROUTES} largest of the answer together` }),
    ),
    customerId: Type.Optional(plainText(256, "the key's customer", 'customer-17')),
    totalBillingUsage: plainText(48, 'credits used, decimal text; corrections may make it negative', '12.5'),
    events: count('number of verifications and captures, also of those that cost nothing', 42),
    partial: Type.Optional(
      Type.Boolean({
        description: 'true where `from` or `to` lies within the period: the row has only what is between',
      }),
    ),
  }),
);

/** The query parameter that names groups. */
export const groupByParameter = Type.Optional(
  Type.String({
    maxLength: 64,
    pattern: `^(${usageGroups.join('|')})(,(${usageGroups.join('|')}))*$`,
    description: `any of ${usageGroups.join(', ')}, separated by commas; default billing,usageName`,
    examples: ['billing,usageName'],
  }),
);

/** The fields of rows by some groups. */
export function columnsOf(groupBy: readonly UsageGroup[]): string[] {
  const fields = {
    billing: ['billingId', 'externalMeterId'],
    usageName: ['usageName'],
    key: ['apiKeyId'],
    route: ['route', 'other'],
    customer: ['customerId'],
  } satisfies Record<UsageGroup, string[]>;
  return usageGroups.filter((group) => groupBy.includes(group)).flatMap((group) => fields[group]);
}

/** Reads the names of groups. */
export function readGroups(text = 'billing,usageName'): UsageGroup[] {
  const given = text.split(',');
  if (new Set(given).size < given.length) throw invalidField('groupBy', 'must name each group once');
  return usageGroups.filter((group) => given.includes(group));
}

/** Throws 400 for a question by key, route or customer about more events than are summed at a time. */
export async function refuseTooManyEvents(
  stores: UsageStores,
  question: UsageQuestion,
  most = MOST_EVENTS,
): Promise<void> {
  if (!needsEvents(question)) return;
  const { quarters } = question.periods;
  const lengthMs = (quarters.at(-1)! - quarters[0]!) * QUARTER_MS;
  if (lengthMs > MOST_DAYS_OF_EVENTS * DAY_MS + HOUR_MS) throw new ApiError('too_many_events');
  if ((await countEvents(stores, question)) > most) throw new ApiError('too_many_events');
}

/** An answer is whole or refused: an invoice must not be made from a part of it. So many rows take at most 8 MB. */
export const MOST_ROWS = 10_000;

/** Reads all rows; throws where they are too many, or made of too many events. */
export async function readWholeUsage(stores: UsageStores, question: UsageQuestion, nowMs: number): Promise<Usage[]> {
  await refuseTooManyEvents(stores, question);
  const rows = await readUsage(stores, question, { limit: MOST_ROWS + 1, mostGroups: MOST_ROWS, nowMs });
  if (rows.length > MOST_ROWS) throw new ApiError('usage_too_large');
  return rows;
}

/** Rows of days in UTC and usage names, as the api answers them. */
export function presentDays({ periods }: UsageQuestion, rows: readonly Usage[]) {
  return rows.map(({ period, usageName, micros, events }) => ({
    day: dateOf(periods.days[period]!),
    totalBillingUsage: formatSum(micros),
    billingUsageName: usageName!,
    events,
  }));
}

/** The external meters of the records that rows are of. */
export async function metersOf(
  sql: Query,
  { workspace, groupBy }: UsageQuestion,
  rows: readonly Usage[],
): Promise<Meters> {
  const ids = groupBy.includes('billing') ? [...new Set(rows.flatMap(({ billingId }) => billingId ?? []))] : [];
  const records = ids.length > 0 ? await namedRecords(sql, workspace, ids) : [];
  return new Map(records.map((one) => [one.id, one.externalMeterId]));
}

/** External meters by the ids of their records. */
export type Meters = ReadonlyMap<string, string>;

/** Rows as the api answers them. */
export function presentUsage(
  { periods }: UsageQuestion,
  rows: readonly Usage[],
  meters: Meters,
): Static<typeof usageOfPeriod>[] {
  const starts = startTexts(periods);
  const cut = cutPeriods(periods);
  return rows.map(({ period, micros, ...row }) =>
    present(usageOfPeriod, {
      ...row,
      start: starts[period]!,
      externalMeterId: row.billingId && meters.get(row.billingId),
      other: row.other || undefined,
      totalBillingUsage: formatSum(micros),
      partial: cut.includes(period) || undefined,
    } as Values<typeof usageOfPeriod>),
  );
}

/**
 * Reads at most so many rows from a position on. Where many rows may belong to one period, it reads a few periods first: a page of a
 * long answer does not sum all of it. The largest routes are those of the whole answer, which is then read each time.
 */
export async function readUsagePage(
  stores: UsageStores,
  question: UsageQuestion,
  { after, limit, nowMs }: { after?: UsagePosition | undefined; limit: number; nowMs: number },
): Promise<Usage[]> {
  const { periods, groupBy, filters } = question;
  if (groupBy.includes('route')) return readUsage(stores, question, { after, limit, nowMs });
  const isLong = groupBy.some((group) => group !== 'usageName') && filters?.billingIds === undefined;
  const rows: Usage[] = [];
  let length = isLong ? FIRST_PERIODS : Infinity;
  for (let first = after?.[0] ?? 0; first < countPeriods(periods) && rows.length < limit; length *= 4) {
    const end = Math.min(first + length, countPeriods(periods));
    const position = after && first === after[0] ? after.with(0, 0) : undefined;
    const some = await readUsage(
      stores,
      { ...question, periods: somePeriods(periods, first, end) },
      { after: position as UsagePosition | undefined, limit: limit - rows.length, nowMs },
    );
    for (const row of some) rows.push({ ...row, period: row.period + first });
    first = end;
  }
  return rows;
}

/** The start of the first period that is not over: usage from there on may still change. */
export function openFrom({ periods }: UsageQuestion, nowMs: number): { openFrom?: string } {
  const open = periods.quarters.findIndex((quarter, i) => i > 0 && quarter * QUARTER_MS > nowMs) - 1;
  return open < 0 ? {} : { openFrom: startTexts(periods)[open]! };
}

/** Makes the cursor that follows a row. It holds only for the same query, of which `asked` has all that matters. */
export function encodeCursor(asked: unknown, question: UsageQuestion, row: Usage): string {
  const { quarters } = question.periods;
  const parts = [markOf(asked), quarters[0], quarters.at(-1), ...positionOf(row, question)];
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** Reads a cursor: the bounds of page one, in quarter hours, and the last row of a page. Throws 400 if it is not one of this query. */
export function decodeCursor(asked: unknown, groupBy: readonly UsageGroup[], cursor: string) {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    throw new ApiError('invalid_cursor');
  }
  const [mark, first, last, period, ...keys] = Array.isArray(parts) ? (parts as unknown[]) : [];
  const columns = keyFields(groupBy);
  // A cursor may be made up: only what is a time of the books is one of its bounds.
  const isWhole = [first, last, period].every(
    (one) => Number.isSafeInteger(one) && (one as number) >= 0 && (one as number) <= LAST_QUARTER,
  );
  const areKeys =
    keys.length === columns.length &&
    keys.every((key, i) => typeof key === (columns[i] === 'other' ? 'boolean' : 'string'));
  if (mark !== markOf(asked) || !isWhole || !areKeys || !((first as number) < (last as number)))
    throw new ApiError('invalid_cursor');
  const after: UsagePosition = [period as number, ...(keys as (string | boolean)[])];
  return { bounds: [first, last] as [number, number], after };
}

function markOf(asked: unknown): string {
  return hash('sha256', JSON.stringify(asked), 'base64url').slice(0, 16);
}
