import { Type, type Static } from 'typebox';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { TextAnswer } from '../../../../shared/contract/route.ts';
import { day, id, named, object, textOf } from '../../../../shared/contract/schema-kinds.ts';
import { requireBilling } from '../../resources/billings.ts';
import { csv, prefersCsv } from '../../http/csv.ts';
import { route } from '../../http/route.ts';

const usageRow = named(
  'UsageRow',
  object({
    billingId: id('billing record'),
    day: day('the day'),
    totalBillingUsage: Type.String({
      maxLength: 32,
      examples: ['0.25'],
      description: 'credits used that day, decimal text; a correction may make it negative',
    }),
    billingUsageName: Type.String({ maxLength: 128, description: 'what is counted', examples: ['tokens'] }),
    events: Type.Integer({
      minimum: 0,
      description: 'number of verifications, also of those that cost nothing',
      examples: [1],
    }),
  }),
);
type UsageAnswerRow = Static<typeof usageRow>;

const COLUMNS = ['billingId', 'day', 'totalBillingUsage', 'billingUsageName', 'events'] as const;
// The answer is whole or refused: an invoice must not be made from a part of it. So many rows take at most 8 MB.
const MOST_ROWS = 10_000;
const DAY_MS = 86_400_000;

export default route({
  method: 'get',
  path: '/api/v1/usage/{bid}',
  tag: 'Usage',
  operationId: 'getUsage',
  summary: 'Daily usage of a billing record, by day and then by usage name',
  description:
    'Days are in UTC, and corrections count on the day that they name. With `Accept: text/csv` the answer is CSV.',
  permission: 'usage:read',
  params: object({ bid: id('billing record') }),
  query: object({
    from: Type.Optional(day('first day')),
    to: Type.Optional(day('last day')),
    usageName: Type.Optional(textOf(128, 'only usage of this name', 'tokens')),
    format: Type.Optional(Type.Enum(['json', 'csv'], { description: 'replaces the Accept header' })),
  }),
  response: object({ data: Type.Array(usageRow, { maxItems: MOST_ROWS }) }),
  alternative: {
    type: 'text/csv',
    description:
      'RFC 4180, with a header line; a name that a spreadsheet would run as a formula starts with an apostrophe',
    example: csv(COLUMNS, [['bill_01kafc6v3nf0qtmhd7d5ryx2s9', '2026-11-20', '0.25', 'tokens', 1]]),
  },
  errors: ['billing_not_found', 'usage_too_large', 'usage_unavailable'],

  async handle({ sql, params, query, caller, books, header }) {
    const { from = FIRST_DAY, to = LAST_DAY, usageName, format } = query;
    if (query.from && query.to && from > to) throw fromAfterTo();
    const { id: billingId } = await requireBilling(sql, caller, params.bid);

    // Read the marks before the sums: if a mark is cleared in between, its sums are stored already, and the day is read
    // live without need.
    const liveDays = await markedDays(sql, billingId);
    const rows = await books.dailyUsage({
      billingId,
      from: clamp(from),
      to: clamp(to),
      liveDays,
      liveFrom: yesterday(Date.now()),
      mostRows: MOST_ROWS + 1,
      ...(usageName !== undefined && { usageName }),
    });
    if (rows.length > MOST_ROWS) throw new ApiError('usage_too_large');
    const data = rows.map((row) => ({
      billingId,
      day: row.day,
      totalBillingUsage: formatCredits(row.costMicros),
      billingUsageName: row.usageName,
      events: row.events,
    }));
    const asCsv = format ? format === 'csv' : prefersCsv(header('accept'));
    return asCsv ? new TextAnswer('text/csv; charset=utf-8; header=present', toCsv(data)) : { data };
  },
});

// The first and last day that the books can store.
const FIRST_DAY = '1970-01-01';
const LAST_DAY = '2149-06-06';

function clamp(day: string): string {
  return day < FIRST_DAY ? FIRST_DAY : day > LAST_DAY ? LAST_DAY : day;
}

function fromAfterTo(): ApiError {
  return new ApiError('invalid_request', { details: [{ path: 'from', message: 'must not be after to' }] });
}

/** Days whose stored sums are incomplete. */
async function markedDays(sql: Query, billingId: string): Promise<string[]> {
  const rows = await sql<{ day: string }[]>`select day from usage_marks where billing_id = ${billingId}`;
  return rows.map((row) => row.day);
}

/**
 * The first day that is summed live. Redis's clock closes days, and this is ours: while the two are less than a day
 * apart, the answer is right without asking Redis, which may be unavailable.
 */
function yesterday(nowMs: number): string {
  return new Date(nowMs - DAY_MS).toISOString().slice(0, 10);
}

function toCsv(data: UsageAnswerRow[]): string {
  return csv(
    COLUMNS,
    data.map((row) => COLUMNS.map((name) => row[name])),
  );
}
