import { Type } from 'typebox';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { id, named, object, textOf, count, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { externalMeterId, name } from '../../../../shared/contract/schemas.ts';
import {
  outcomeGroups,
  readOutcomes,
  type Outcome,
  type OutcomeGroup,
} from '../../../../shared/books/usage/outcomes-query.ts';
import { requireUsageOf, requireWholeTeam } from '../../resources/access/access.ts';
import { eachOf, type Query } from '../../../../shared/stores/postgres.ts';
import { route } from '../../http/route.ts';
import { present, type Values } from '../../resources/rows.ts';
import { outcome, withoutEmpty } from './outcome.ts';
import { momentTexts } from '../../../../shared/values/periods.ts';
import { cutsOf, outcomeIntervals } from '../../resources/usage-range.ts';

const MOST_ROWS = 10_000;
const MOST_READ = 50_000_000;
const MOST_KEYS = 1_000;

const counted = object({
  start: plainText(32, 'when the period begins, RFC 3339 with the offset of the zone', '2026-11-20T08:00:00+00:00'),
  status: Type.Optional(outcome.status),
  reason: outcome.reason,
  limit: Type.Optional(plainText(160, 'the limit that refused: its place, a slash, and its name', 'billing/daily')),
  apiKeyId: Type.Optional(id('API key')),
  apiKeyName: Type.Optional({ ...name, description: "the key's name now; only for tokens with `key:read`" }),
  count: count('how many calls', 12),
});
const counts = Type.Array(named('VerificationCount', counted), { maxItems: MOST_ROWS });
const bound = (description: string) => Type.String({ maxLength: 40, description, examples: ['2026-11-20'] });

export const countVerifications = route('get', '/api/v1/verifications', {
  summary: 'Count verifications by status, reason, limit or key',
  description:
    'VALID is counted from the usage events, so it is exact. Refusals are counted where they happen, and here within about two seconds; they are kept for 93 days. Beyond 400 counts of a team in a minute and process, the rest stands under "(other)". Without workspaceId: calls with secrets that are no key of the team\'s, which belong to no workspace; only for tokens of the whole team.',
  permission: 'usage:read',
  query: object({
    workspaceId: Type.Optional(id('workspace')),
    from: Type.Optional(bound('first day in the zone, or an instant; default: the day of `to`')),
    to: Type.Optional(bound('last day in the zone, or an instant, which is excluded; default: today')),
    interval: Type.Optional(
      Type.Enum([...outcomeIntervals], {
        default: 'day',
        description: 'the length of periods: minutes of at most 2 days, hours of 31, days of 93',
      }),
    ),
    timezone: Type.Optional(
      Type.String({
        maxLength: 64,
        default: 'UTC',
        description: 'the zone, by its IANA name',
        examples: ['Asia/Tokyo'],
      }),
    ),
    groupBy: Type.Optional(
      Type.String({
        maxLength: 64,
        default: 'status',
        description: `any of ${outcomeGroups.join(', ')}, with commas between; empty: none`,
        examples: ['status,reason'],
      }),
    ),
    status: Type.Optional(outcome.status),
    reason: Type.Optional(outcome.reason),
    limit: Type.Optional(textOf(160, 'only refusals by this limit', 'billing/daily')),
    apiKeyId: Type.Optional(id('API key')),
    externalMeterId: Type.Optional({
      ...externalMeterId,
      description: `only calls of the keys that have this meter now, of at most ${MOST_KEYS}; with workspaceId`,
    }),
  }),
  response: object({
    data: counts,
    wouldRefuse: {
      ...counts,
      description:
        'calls that passed limits which only watch (`shadow`), and that these would have refused; not in `data`',
    },
  }),
  errors: ['workspace_forbidden', 'usage_too_large', 'usage_too_slow', 'usage_unavailable'],

  async handle({ sql, query, caller, books, clock }) {
    const { workspaceId, externalMeterId: meter, from, to, interval = 'day', timezone = 'UTC' } = query;
    if (workspaceId === undefined && meter !== undefined) throw invalidField('externalMeterId', 'needs workspaceId');
    if (workspaceId === undefined) requireWholeTeam(caller);
    const workspace = workspaceId === undefined ? undefined : await requireUsageOf(sql, caller, workspaceId);
    const bounds = { ...(from !== undefined && { from }), ...(to !== undefined && { to }) };
    const cuts = cutsOf({ ...bounds, interval, timezone }, clock.now());
    const { status, reason, limit, apiKeyId: key } = query;
    const groupBy = groupsIn(query.groupBy ?? 'status');
    const asked = Object.entries({ status, reason, limit, key });
    const filters = Object.fromEntries(asked.filter(([, value]) => value !== undefined)) as Record<string, string>;
    const ofMeter = workspaceId !== undefined && meter !== undefined;
    const keyIds = ofMeter ? await keysOf(sql, workspaceId, meter) : undefined;
    const rows = await readOutcomes(
      books,
      { teamId: caller.teamId, workspace, cuts: cuts.map((ms) => ms / 1000), groupBy, filters, keyIds },
      { rows: MOST_ROWS, read: MOST_READ },
    );
    const maySeeNames = workspaceId !== undefined && caller.permissions.has('key:read');
    const names = maySeeNames ? await namesOf(sql, workspaceId, rows) : new Map<string, string>();
    const starts = momentTexts(cuts, timezone);
    const answer = ({ key, calls, period, ...row }: Outcome) =>
      withoutEmpty({
        ...row,
        start: starts[period],
        apiKeyId: key,
        apiKeyName: key && names.get(key),
        count: calls,
      });
    const rowsOf = (isShadow: boolean) =>
      rows
        .filter((row) => row.wouldRefuse === isShadow)
        .map((row) => present(counted, answer(row) as Values<typeof counted>));
    return { data: rowsOf(false), wouldRefuse: rowsOf(true) };
  },
});

async function keysOf(sql: Query, workspaceId: string, meter: string): Promise<string[]> {
  const keys = await sql<{ id: string }[]>`
    select id from api_keys where workspace_id = ${workspaceId} and external_meter_id = ${meter}
    limit ${MOST_KEYS + 1}`;
  if (keys.length <= MOST_KEYS) return keys.map((key) => key.id);
  const message = `The meter has more than ${MOST_KEYS} keys; ask for one of them by apiKeyId.`;
  throw new ApiError('usage_too_large', { message });
}

async function namesOf(sql: Query, workspaceId: string, rows: Outcome[]): Promise<Map<string, string>> {
  const ids = [...new Set(rows.flatMap(({ key }) => key || []))];
  if (ids.length === 0) return new Map();
  const keys = await sql<{ id: string; name: string }[]>`
    select id, name from api_keys where workspace_id = ${workspaceId} and id = any(${eachOf(sql, ids)})`;
  return new Map(keys.map((key) => [key.id, key.name]));
}

function groupsIn(text: string): OutcomeGroup[] {
  const asked = text === '' ? [] : text.split(',');
  const isGroup = (name: string): name is OutcomeGroup => outcomeGroups.some((group) => group === name);
  if (asked.every(isGroup)) return [...new Set(asked)];
  throw invalidField('groupBy', `must be any of ${outcomeGroups.join(', ')}, with commas between`);
}
