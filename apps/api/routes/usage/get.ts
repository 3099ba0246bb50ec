import { Type } from 'typebox';
import type { UsageQuestion } from '../../../../shared/books/usage/sql.ts';
import { invalidField } from '../../../../shared/contract/errors.ts';
import { day, named, object, textOf, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { daysOfUtc, type Periods } from '../../../../shared/values/periods.ts';
import { formats } from '../../../../shared/contract/validate.ts';
import { csv, csvForm, formParameters, inForm } from '../../http/forms.ts';
import { route } from '../../http/route.ts';
import { requireUsageOfBilling } from '../../resources/billings/billings.ts';
import { FIRST_DAY, LAST_DAY, rangeParameters, readPeriods } from '../../resources/usage-range.ts';
import {
  columnsOf,
  groupByParameter,
  presentUsage,
  readGroups,
  MOST_ROWS,
  presentDays,
  readWholeUsage,
  usageOfPeriod,
} from '../../resources/usage-rows.ts';

// One type for both kinds of rows: clients of other languages could not tell two apart.
const { start, ...ofPeriod } = usageOfPeriod.properties;
const usageRow = named(
  'UsageRow',
  object({
    ...ofPeriod,
    day: Type.Optional(day('the day, in rows without `start`')),
    billingUsageName: Type.Optional(plainText(128, 'what is counted, in rows with `day`', 'tokens')),
    start: Type.Optional(start),
  }),
);
const EXAMPLE = {
  billingId: 'bill_01kafc6v3nf0qtmhd7d5ryx2s9',
  day: '2026-11-20',
  totalBillingUsage: '0.25',
  billingUsageName: 'tokens',
  events: 1,
};

const COLUMNS = ['billingId', 'day', 'totalBillingUsage', 'billingUsageName', 'events'] as const;

export const getUsage = route('get', '/api/v1/usage/{bid}', {
  summary: 'Usage of a billing record, by default of each day and usage name',
  description:
    'Without `interval`, `timezone` and `groupBy`, rows are days in UTC, ordered by day and then by usage name; with any of them, rows are as those of GET /api/v1/usage. Corrections count on the day that they name. With `Accept: text/csv` the answer is CSV.',
  permission: 'usage:read',
  query: object({
    ...rangeParameters,
    groupBy: groupByParameter,
    usageName: Type.Optional(textOf(128, 'only usage of this name', 'tokens')),
    ...formParameters('json', 'csv'),
  }),
  response: object({ data: Type.Array(usageRow, { maxItems: MOST_ROWS, examples: [[EXAMPLE]] }) }),
  alternative: csvForm(csv(COLUMNS, [COLUMNS.map((name) => EXAMPLE[name])])),
  errors: ['usage_too_large', 'usage_too_slow', 'too_many_events', 'usage_unavailable'],

  async handle(call) {
    const { sql, params, query, caller, books, clock } = call;
    const nowMs = clock.now();
    const { row: record, workspace } = await requireUsageOfBilling(sql, caller, params.bid);
    const { interval, timezone, groupBy, usageName } = query;
    const isByDay = interval === undefined && timezone === undefined && groupBy === undefined;
    const question: UsageQuestion = {
      workspace,
      periods: isByDay ? readDays(query) : readPeriods(query, nowMs),
      groupBy: isByDay ? ['usageName'] : readGroups(groupBy),
      filters: { billingIds: [record.id], ...(usageName !== undefined && { usageName }) },
    };
    const rows = await readWholeUsage({ sql, books }, question, nowMs);
    if (!isByDay) {
      const data = presentUsage(question, rows, new Map([[record.id, record.externalMeterId]]));
      const columns = ['start', ...columnsOf(question.groupBy), 'totalBillingUsage', 'events', 'partial'];
      const full = data.map((row) => ({ other: false, partial: false, ...row }));
      return inForm(call, 'usage', { data }, () => rowsAsCsv(columns, full));
    }
    const data = presentDays(question, rows).map((row) => ({ billingId: record.id, ...row }));
    return inForm(call, 'usage', { data }, () => rowsAsCsv(COLUMNS, data));
  },
});

function readDays(given: { from?: string; to?: string }): Periods {
  const { from = FIRST_DAY, to = LAST_DAY } = given;
  for (const [path, text] of Object.entries({ from, to }))
    if (!formats.date(text)) throw invalidField(path, 'must be a day, YYYY-MM-DD');
  if (given.from && given.to && from > to) throw invalidField('from', 'must not be after to');
  const clamp = (day: string) => (day < FIRST_DAY ? FIRST_DAY : day > LAST_DAY ? LAST_DAY : day);
  return daysOfUtc(clamp(from), clamp(to));
}

function rowsAsCsv(columns: readonly string[], data: readonly Record<string, string | number | boolean>[]): string {
  const rows = data.map((row) => columns.map((name) => String(row[name] ?? '')));
  return csv(columns, rows);
}
