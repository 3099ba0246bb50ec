import { Type, type Static } from 'typebox';
import {
  exportFormats,
  exportSql,
  MOST_NAMED_RECORDS,
  namedRecords,
  type ExportFormat,
} from '../../../../shared/books/usage/export.ts';
import { liveDaysOf, openBooksFile } from '../../../../shared/books/usage/query.ts';
import type { UsageFilters, UsageQuestion } from '../../../../shared/books/usage/sql.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { id, object, textOf, usageName, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { customerId, externalMeterId } from '../../../../shared/contract/schemas.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { QUARTER_MS } from '../../../../shared/values/periods.ts';
import { csvForm, fileAnswer, formOf, formParameters, formTypes } from '../../http/forms.ts';
import { route } from '../../http/route.ts';
import type { Services } from '../../http/route.ts';
import { requireUsageOf } from '../../resources/access/access.ts';
import { boundedPeriods, rangeParameters, readPeriods } from '../../resources/usage-range.ts';
import {
  decodeCursor,
  encodeCursor,
  groupByParameter,
  metersOf,
  openFrom,
  presentUsage,
  readGroups,
  readUsagePage,
  refuseTooManyEvents,
  usageOfPeriod,
} from '../../resources/usage-rows.ts';

const MOST_ROWS = 10_000;
const CURSOR = 'WyJxMHI4c3d1dXlhMl9YRzRSIiwxOTkzOTIwLDE5OTY4MDAsMCwiIiwiZGVmYXVsdCJd';

const query = object({
  workspaceId: id('workspace'),
  ...rangeParameters,
  groupBy: groupByParameter,
  billingId: Type.Optional(id('billing record', ': only its usage')),
  externalMeterId: Type.Optional({
    ...externalMeterId,
    description: 'only usage of the record of this external meter',
  }),
  customerId: Type.Optional({ ...customerId, description: 'only usage of keys of this customer' }),
  apiKeyId: Type.Optional(id('API key', ': only its usage')),
  usageName: Type.Optional(usageName('only usage of this name')),
  route: Type.Optional(textOf(1024, 'only usage of verifications that named this route', 'GET /v1/models')),
  ...formParameters('json', ...exportFormats),
  limit: Type.Integer({
    minimum: 1,
    maximum: MOST_ROWS,
    default: 1_000,
    description: 'maximum number of rows in JSON',
  }),
  cursor: Type.Optional(plainText(8_192, '`nextCursor` of the previous answer', CURSOR)),
});
type Given = Static<typeof query>;

export const listUsage = route('get', '/api/v1/usage', {
  summary: 'Usage of a workspace by hour, day, week or month',
  description:
    'Sums usage by billing record, usage name, key, route and customer, in the order of time and groups. A correction counts on the day that it names, by hour in its first hour. As CSV or Parquet the answer is one whole file.',
  permission: 'usage:read',
  query,
  response: object({
    data: Type.Array(usageOfPeriod, { maxItems: MOST_ROWS }),
    openFrom: Type.Optional(
      plainText(
        32,
        'start of the first period that is not over: usage from there on may still change, also between pages',
        '2026-11-20T00:00:00+01:00',
      ),
    ),
    nextCursor: Type.Optional(plainText(8_192, 'where the next page starts; absent on the last one', CURSOR)),
  }),
  alternative: csvForm(
    '"start","usageName","totalBillingUsage","events","partial"\r\n"2026-11-01T00:00:00+00:00","tokens",12.5,42,false\r\n',
  ),
  file: {
    type: formTypes.parquet,
    description: 'the same columns: `start` in UTC with milliseconds, `totalBillingUsage` as DECIMAL(38,6)',
  },
  errors: [
    'workspace_forbidden',
    'invalid_cursor',
    'usage_too_slow',
    'too_many_events',
    'export_too_large',
    'too_many_exports',
    'usage_unavailable',
  ],

  async handle(call) {
    const { sql, caller, books, query: given, clock } = call;
    const nowMs = clock.now();
    const workspace = await requireUsageOf(sql, caller, given.workspaceId);
    const groupBy = readGroups(given.groupBy);
    const asked = { ...given, limit: undefined, cursor: undefined, format: undefined, bom: undefined };
    const cursor = given.cursor === undefined ? undefined : decodeCursor(asked, groupBy, given.cursor);
    const periods = cursor ? periodsOfCursor(given, cursor.bounds) : readPeriods(given, nowMs);
    const question = { workspace, periods, groupBy, filters: await filtersOf(sql, given) };
    const stores = { sql, books };
    await refuseTooManyEvents(stores, question);
    const form = formOf(call);
    if (form !== 'json') return exportOf(call, question, form, nowMs);

    const rows = await readUsagePage(stores, question, { after: cursor?.after, limit: given.limit + 1, nowMs });
    const page = rows.slice(0, given.limit);
    return {
      data: presentUsage(question, page, await metersOf(sql, question, page)),
      ...openFrom(question, nowMs),
      ...(rows.length > page.length && { nextCursor: encodeCursor(asked, question, page.at(-1)!) }),
    };
  },
});

function periodsOfCursor({ interval = 'day', timezone = 'UTC' }: Given, [first, last]: [number, number]) {
  return boundedPeriods({ startMs: first * QUARTER_MS, endMs: last * QUARTER_MS, interval, timezone });
}

async function filtersOf(sql: Query, given: Given): Promise<UsageFilters> {
  const { workspaceId, billingId, externalMeterId, usageName, apiKeyId, route, customerId } = given;
  let billingIds = billingId === undefined ? undefined : [billingId].filter(isId);
  if (externalMeterId !== undefined) {
    const found = await sql<{ id: string }[]>`
      select id from billing_records where workspace_id = ${workspaceId} and external_meter_id = ${externalMeterId}`;
    billingIds = found.map((record) => record.id).filter((one) => billingId === undefined || one === billingId);
  }
  const filters = Object.entries({ billingIds, usageName, apiKeyId, route, customerId });
  return Object.fromEntries(filters.filter(([, value]) => value !== undefined));
}

type Exporting = Pick<Services, 'sql' | 'exports' | 'clock'> & { query: { bom?: '0' | '1' } };

async function exportOf(services: Exporting, question: UsageQuestion, format: ExportFormat, nowMs: number) {
  const { sql, exports } = services;
  const live = await liveDaysOf(sql, question, nowMs);
  const isNamed = question.groupBy.includes('billing');
  const records = isNamed ? await namedRecords(sql, question.workspace, question.filters?.billingIds) : [];
  if (records.length > MOST_NAMED_RECORDS) throw new ApiError('export_too_large');
  const statement = exportSql(question, live, records, format);
  return fileAnswer(services, { name: 'usage', form: format, bom: services.query.bom }, (signal) =>
    openBooksFile(exports, statement, signal),
  );
}
