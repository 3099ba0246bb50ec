import { Type } from 'typebox';
import { readRecentOutcomes, type RecentQuestion } from '../../../../shared/books/usage/recent-outcomes.ts';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { limitedByLimit } from '../../../../shared/contract/limits.ts';
import { id, named, object, timestamp, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { externalMeterId } from '../../../../shared/contract/schemas.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { mayUse, requireUsageOf } from '../../resources/access/access.ts';
import { route } from '../../http/route.ts';
import { present, type Values } from '../../resources/rows.ts';
import { outcome, withoutEmpty } from './outcome.ts';

const MOST = 100;
const MOST_KEYS = 1_000;

const { on, name, limit } = limitedByLimit.properties;
const refusedBy = object({ on, name, limit });
const decision = named(
  'RecentVerification',
  object({
    time: timestamp('when it was decided'),
    apiKeyId: id('API key'),
    ...outcome,
    limitedBy: Type.Optional(refusedBy),
    clientAddress: Type.Optional(
      plainText(
        64,
        "of a refusal: the end client's address, where the call named it and the workspace keeps it",
        '203.0.113.9',
      ),
    ),
  }),
);

export const listRecentVerifications = route('get', '/api/v1/verifications/recent', {
  summary: 'List the last 100 verifications of a key or a meter, newest first: why was my customer refused?',
  description:
    'Of the last 24 hours, within about two seconds. Of refusals at most ten a second of a key are kept one by one; GET /api/v1/verifications counts all of them. Give apiKeyId, or workspaceId with externalMeterId.',
  permission: 'usage:read',
  query: object({
    apiKeyId: Type.Optional(id('API key')),
    workspaceId: Type.Optional(id('workspace')),
    externalMeterId: Type.Optional(externalMeterId),
  }),
  response: object({ data: Type.Array(decision, { maxItems: MOST }) }),
  errors: ['workspace_forbidden', 'key_not_found', 'usage_too_slow', 'usage_unavailable'],

  async handle({ sql, query, caller, books, clock }) {
    const { apiKeyId, workspaceId, externalMeterId: meter } = query;
    const isMeter = workspaceId !== undefined && meter !== undefined && apiKeyId === undefined;
    if (!isMeter && (apiKeyId === undefined || workspaceId !== undefined || meter !== undefined))
      throw invalidField('apiKeyId', 'must be given alone, or workspaceId with externalMeterId in its place');
    const question = isMeter ? await ofMeter(sql, caller, workspaceId, meter) : await ofKey(sql, caller, apiKeyId!);
    const rows = await readRecentOutcomes(books, question, clock.now(), MOST);
    const data = rows.map(({ timeMs, limitedBy, ...row }) => {
      const by = limitedBy === '' ? {} : { limitedBy: JSON.parse(limitedBy) as unknown };
      return present(decision, { ...withoutEmpty(row), ...by, time: timeMs } as unknown as Values<typeof decision>);
    });
    return { data };
  },
});

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

async function ofMeter(sql: Query, caller: Caller, workspaceId: string, meter: string): Promise<RecentQuestion> {
  const workspace = await requireUsageOf(sql, caller, workspaceId);
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
