import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { limitedByLimit } from '../../../../shared/contract/limits.ts';
import {
  count,
  id,
  instant,
  named,
  object,
  plainText,
  signedCredits,
  textOf,
  timestamp,
  usageName,
} from '../../../../shared/contract/schema-kinds.ts';
import { externalMeterId, name } from '../../../../shared/contract/schemas.ts';
import {
  outcomeGroups,
  readOutcomes,
  type Outcome,
  type OutcomeGroup,
} from '../../../../shared/books/usage/outcomes-query.ts';
import { readRecentOutcomes, type RecentQuestion } from '../../../../shared/books/usage/recent-outcomes.ts';
import { mayUse, requireUsageOf, requireWholeTeam } from '../../resources/access/access.ts';
import { eachOf, type Query } from '../../../../shared/stores/postgres.ts';
import { route } from '../../http/route.ts';
import { present, type Values } from '../../resources/rows.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { momentTexts } from '../../../../shared/values/periods.ts';
import { reasons, statuses } from '../../../../shared/verification/operation.ts';
import { keylessReasons } from '../../../../shared/verification/outcomes.ts';
import { cutsOf, outcomeIntervals, rangeParameters } from '../../resources/usage-range.ts';

const MOST_ROWS = 10_000;
const MOST_READ = 50_000_000;
const MOST_KEYS = 1_000;
const MOST_RECENT = 100;

// What is told of a decision.
const outcome = {
  status: Type.Enum([...statuses], { description: 'the answer to the call' }),
  reason: Type.Optional(
    Type.Enum([...reasons, ...keylessReasons], {
      description: 'why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID',
    }),
  ),
  route: Type.Optional(plainText(1024, 'the route that the call named', 'GET /documents')),
};

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

const ABOUT_ADDRESS = "of a refusal: the end client's address, where the call named it and the workspace keeps it";
const { on, name: limitName, limit } = limitedByLimit.properties;
const refusedBy = object({ on, name: limitName, limit });
const decision = named(
  'RecentVerification',
  object({
    id: plainText(64, 'names the decision', 'evt_01m8p9mtkvfjfrbq84ny9qyvry'),
    time: timestamp('when it was decided'),
    apiKeyId: id('API key'),
    ...outcome,
    limitedBy: Type.Optional(refusedBy),
    clientAddress: Type.Optional(plainText(64, ABOUT_ADDRESS, '203.0.113.9')),
    usageName: Type.Optional(plainText(256, 'the usage that it was counted as', 'tokens')),
    billingUsage: Type.Optional(
      signedCredits('credits that it used; absent: it is of no billing record, or was refused'),
    ),
    usedCredits: Type.Optional(signedCredits('what the billing record had used with it')),
  }),
);

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
    timezone: rangeParameters.timezone,
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
    const { workspaceId, externalMeterId: meter, interval = 'day', timezone = 'UTC' } = query;
    if (workspaceId === undefined && meter !== undefined) throw invalidField('externalMeterId', 'needs workspaceId');
    if (workspaceId === undefined) requireWholeTeam(caller);
    const workspace = workspaceId === undefined ? undefined : await requireUsageOf(sql, caller, workspaceId);
    const cuts = cutsOf({ ...query, interval, timezone }, clock.now());
    const { status, reason, limit, apiKeyId: key } = query;
    const groupBy = groupsIn(query.groupBy ?? 'status');
    const filters = withoutEmpty({ status, reason, limit, key }) as Record<string, string>;
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
    const answer = ({ key, calls, period, ...row }: Outcome) => {
      const told = { ...row, start: starts[period], apiKeyId: key, apiKeyName: key && names.get(key), count: calls };
      return present(counted, withoutEmpty(told) as Values<typeof counted>);
    };
    const [wouldRefuse = [], data = []] = [true, false].map((isShadow) =>
      rows.filter((row) => row.wouldRefuse === isShadow).map(answer),
    );
    return { data, wouldRefuse };
  },
});

export const listRecentVerifications = route('get', '/api/v1/verifications/recent', {
  summary:
    'List the last 100 verifications of a key, a meter or a workspace, newest first: why was my customer refused?',
  description:
    'Of the last 24 hours, within about two seconds. Of refusals at most ten a second of a key are kept one by one; GET /api/v1/verifications counts all of them. Give apiKeyId, or workspaceId, also with externalMeterId.',
  permission: 'usage:read',
  query: object({
    apiKeyId: Type.Optional(id('API key')),
    workspaceId: Type.Optional(id('workspace')),
    externalMeterId: Type.Optional(externalMeterId),
    refused: Type.Optional(Type.Boolean({ description: 'only refusals, or only those that were VALID' })),
    status: Type.Optional(outcome.status),
    reason: Type.Optional({ ...outcome.reason, description: 'only refusals for this reason' }),
    usageName: Type.Optional(usageName('only verifications that were counted as this usage')),
    from: Type.Optional(instant('only those from then on')),
    to: Type.Optional(instant('only those before then')),
  }),
  response: object({ data: Type.Array(decision, { maxItems: MOST_RECENT }) }),
  errors: ['workspace_forbidden', 'key_not_found', 'usage_too_slow', 'usage_unavailable'],

  async handle({ sql, query, caller, books, clock }) {
    const { apiKeyId, workspaceId, externalMeterId: meter, from: fromMs, to: toMs, ...which } = query;
    if ((apiKeyId === undefined) === (workspaceId === undefined) || (apiKeyId !== undefined && meter !== undefined))
      throw invalidField('apiKeyId', 'must be given alone, or workspaceId, also with externalMeterId, in its place');
    const question =
      apiKeyId === undefined ? await ofMeter(sql, caller, workspaceId!, meter) : await ofKey(sql, caller, apiKeyId);
    const rows = await readRecentOutcomes(books, { ...question, ...which, fromMs, toMs }, clock.now(), MOST_RECENT);
    const data = rows.map(({ timeMs, limitedBy, billingId, costMicros, usedMicros, ...row }) => {
      const by = limitedBy === '' ? {} : { limitedBy: JSON.parse(limitedBy) as unknown };
      const used = { billingUsage: formatCredits(costMicros), usedCredits: formatCredits(usedMicros) };
      const told = { ...withoutEmpty(row), ...by, ...(billingId !== '' && used), time: timeMs };
      return present(decision, told as unknown as Values<typeof decision>);
    });
    return { data };
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

async function ofKey(sql: Query, caller: Caller, keyId: string): Promise<RecentQuestion> {
  const [key] = isId(keyId)
    ? await sql<{ workspaceId: string; billingId: string | null }[]>`
        select k.workspace_id, b.id as billing_id from api_keys k
          left join billing_records b on b.workspace_id = k.workspace_id and b.external_meter_id = k.external_meter_id
        where k.id = ${keyId} and k.team_id = ${caller.teamId}`
    : [];
  if (!key || !mayUse(caller, key.workspaceId)) throw new ApiError('key_not_found');
  const workspace = await requireUsageOf(sql, caller, key.workspaceId);
  return { workspace, keyIds: [keyId], billingId: key.billingId ?? undefined };
}

async function ofMeter(
  sql: Query,
  caller: Caller,
  workspaceId: string,
  meter: string | undefined,
): Promise<RecentQuestion> {
  const workspace = await requireUsageOf(sql, caller, workspaceId);
  if (meter === undefined) return { workspace };
  const [[billing], keys] = await Promise.all([
    sql<{ id: string }[]>`
      select id from billing_records where workspace_id = ${workspaceId} and external_meter_id = ${meter}`,
    // Without a record, events name only the key.
    sql<{ id: string }[]>`
      select id from api_keys where workspace_id = ${workspaceId} and external_meter_id = ${meter}
      order by id desc limit ${MOST_KEYS}`,
  ]);
  return { workspace, meter, keyIds: keys.map((key) => key.id), billingId: billing?.id };
}

/** A row of the books without what they leave empty. */
function withoutEmpty(row: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== '' && value !== undefined));
}
