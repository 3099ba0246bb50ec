import { Type, type Static } from 'typebox';
import { giveNewSecret, graceSeconds } from '../api-key/rotation.ts';
import { readStatement, statementCsv, statementForms, statementQuery } from '../customer-billing/statement.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object, instant, named, secretText, day, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { customerId, billing } from '../../../../shared/contract/schemas.ts';
import { inForm } from '../../http/forms.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { permissions } from '../../resources/access/link-tokens.ts';
import {
  portalOf,
  findPortalBilling,
  requirePortalKey,
  requirePortalBilling,
} from '../../resources/access/sessions.ts';
import { presentBilling } from '../../resources/billings/billings.ts';
import { grant, type GrantRow, grantReader } from '../../resources/grants/grants.ts';
import { apiKey, keys } from '../../resources/keys/keys.ts';
import { present, without } from '../../resources/rows.ts';
import { branding } from '../../resources/workspaces.ts';
import { statement } from '../../resources/statements/statements.ts';
import { MOST_FILTERED_RECORDS, type UsageQuestion } from '../../../../shared/books/usage/sql.ts';
import type { Portal } from '../../../../shared/contract/caller.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { usageOfPortal } from '../../resources/access/access.ts';
import { readPeriods } from '../../resources/usage-range.ts';
import { MOST_ROWS, presentDays, readWholeUsage, usageOfPeriod } from '../../resources/usage-rows.ts';

const portal = named(
  'Portal',
  object({
    customerId,
    permissions,
    hasBalance: Type.Boolean({
      description: 'whether it shows a balance: the link names a billing record, and all its keys are of the customer',
      examples: [true],
    }),
    branding: Type.Optional(branding),
    expiresAt: instant('when it ends'),
  }),
);

// What the team notes about a key (metadata, addresses, scopes, limits) is the team's.
const { id, name, maskedKey, enabled, expiresAt, createdAt, lastUsedAt } = apiKey.properties;
const fields = { id, name, maskedKey, enabled, expiresAt, createdAt, lastUsedAt };

const portalKey = named('PortalKey', object(fields));
const portalKeyWithText = named(
  'PortalKeyWithSecret',
  object({ ...fields, key: secretText('the key itself; only this answer contains it', 'acme') }),
);

export const getPortal = route('get', '/api/v1/portal', {
  summary: 'Get what the portal shows to its customer, and until when',
  description: 'A session of the portal sees what its link token stands for, and no more.',
  portal: 'session',
  response: object({ portal }),

  async handle({ sql, caller }) {
    const portal = portalOf(caller);
    const { workspaceId, customerId, mayRotate, expiresAt } = portal;
    const hasBalance = (await findPortalBilling(sql, portal)) !== undefined;
    const [of] = await sql<{ branding: Static<typeof branding> | null }[]>`
      select branding from workspaces where id = ${workspaceId}`;
    const looks = of?.branding ? { branding: of.branding } : {};
    return {
      portal: { customerId, permissions: mayRotate ? ['rotate' as const] : [], hasBalance, ...looks, expiresAt },
    };
  },
});

export const listPortalKeys = listRoute('/api/v1/portal/keys', 'apiKeys', portalKey, {
  summary: "List the customer's own API keys, without deleted ones",
  description: 'Pages follow by `cursor`, in the order in which the keys were made.',
  portal: 'session',

  async open({ sql, caller }) {
    const { workspaceId, customerId } = portalOf(caller);
    const isListed = sql`workspace_id = ${workspaceId} and customer_id = ${customerId} and deleted_at is null`;
    return {
      read: (after, take) => keys.page(sql, isListed, after, take),
      present: (row) => presentPortalKey(keys.present(row)),
    };
  },
});

export const rotatePortalKey = route('post', '/api/v1/portal/key/{akid}/rotate', {
  summary: 'Give one of the own API keys a new secret; only this answer contains it',
  description:
    'The link token must permit `rotate`. The earlier secret keeps verifying for `graceSeconds`. The key keeps its id, settings and usage. A key has at most 10 new secrets in an hour this way.',
  portal: 'session',
  bodyOptional: true,
  body: object({ graceSeconds: Type.Optional(graceSeconds) }),
  response: object({ apiKey: portalKeyWithText }),
  errors: ['permission_missing', 'key_deleted', 'too_many_rotations'],

  async handle(call) {
    const portal = portalOf(call.caller);
    const { workspaceId, linkTokenId, mayRotate } = portal;
    const message = 'The link does not permit to rotate keys; ask for one that does where you got it.';
    if (!mayRotate) throw new ApiError('permission_missing', { message });
    await requirePortalKey(call.sql, portal, call.params.akid);
    const params = { id: workspaceId, akid: call.params.akid };
    const { key, ...rotated } = await giveNewSecret(call, params, {
      graceSeconds: call.body.graceSeconds,
      linkTokenId,
    });
    return { apiKey: { ...presentPortalKey(rotated), key } };
  },
});

const plan = ['planId', 'planVersion', 'nextPlanId', 'nextPlanAt'] as const;
const shownBilling = without(billing, ['limits', 'alerts', 'externalIds', ...plan]);

export const getPortalBilling = route('get', '/api/v1/portal/billing', {
  summary: "Get the balance of the link token's billing record",
  description: "It shows while all keys of the record are the customer's. Limits, alerts and plans are left out.",
  portal: 'session',
  response: object({ billing }),
  errors: ['billing_not_found'],

  async handle({ sql, caller, redis }) {
    const row = await requirePortalBilling(sql, portalOf(caller));
    return { billing: present(shownBilling, await presentBilling(redis, row)) };
  },
});

export const listPortalGrants = listRoute('/api/v1/portal/grants', 'grants', grant, {
  summary: "List the grants of the link token's billing record, oldest first",
  description: "It shows while all keys of the record are the customer's. Their metadata and plans are left out.",
  portal: 'session',
  errors: ['billing_not_found', 'redis_unavailable', 'usage_unavailable'],

  async open({ sql, redis, books, caller }) {
    const record = await requirePortalBilling(sql, portalOf(caller));
    const reader = await grantReader({ sql, redis, books }, record);
    return { ...reader, present: (row: GrantRow) => reader.present({ ...row, metadata: null, planId: null }) };
  },
});

export const getPortalStatement = route('get', '/api/v1/portal/statement', {
  summary: "Get the statement of the link token's billing record",
  description:
    "It shows while all keys of the record are the customer's, with the reasons of corrections. With `Accept: text/csv` the answer is CSV.",
  portal: 'session',
  query: statementQuery,
  response: object({ statement }),
  alternative: statementForms,
  errors: ['billing_not_found', 'redis_unavailable', 'usage_unavailable'],

  async handle(call) {
    const billing = await requirePortalBilling(call.sql, portalOf(call.caller));
    const { movements, ...rest } = await readStatement(call, billing, call.query);
    const shown = movements.map((movement) => {
      // Which access token made a correction concerns the team alone.
      const { tokenId: _, ...told } = movement;
      return told;
    });
    const statement = { ...rest, movements: shown };
    return inForm(call, 'statement', { statement }, () => statementCsv(statement));
  },
});

function presentPortalKey(key: ReturnType<typeof keys.present>) {
  return present(portalKey, { expiresAt: undefined, lastUsedAt: undefined, ...key });
}

const { totalBillingUsage, events } = usageOfPeriod.properties;
const usageRow = named(
  'PortalUsageRow',
  object({
    day: day('the day'),
    billingUsageName: plainText(128, 'what is counted', 'tokens'),
    totalBillingUsage,
    events,
  }),
);

export const getPortalUsage = route('get', '/api/v1/portal/usage', {
  summary: "Usage of the customer's own API keys, of each day and usage name",
  description: 'Days are those of UTC. Corrections belong to no key: the statement has them.',
  portal: 'session',
  query: object({
    from: Type.Optional(day('first day; default 30 days before `to`')),
    to: Type.Optional(day('last day; default today')),
  }),
  response: object({ data: Type.Array(usageRow, { maxItems: MOST_ROWS }) }),
  errors: ['usage_too_large', 'usage_too_slow', 'too_many_events', 'usage_unavailable'],

  async handle({ sql, query, caller, books, clock }) {
    const nowMs = clock.now();
    const portal = portalOf(caller);
    const question: UsageQuestion = {
      workspace: usageOfPortal(portal),
      periods: readPeriods(query, nowMs),
      groupBy: ['usageName'],
      filters: { customerId: portal.customerId, ...(await recordsOf(sql, portal)) },
    };
    return { data: presentDays(question, await readWholeUsage({ sql, books }, question, nowMs)) };
  },
});

// The books are ordered by record: without those of the customer's keys, all usage of the workspace is read, of which only the
// customer's counts. So it is for a customer with more records than a question names. What has no record has an empty name there.
async function recordsOf(sql: Query, { workspaceId, customerId }: Portal): Promise<{ billingIds?: string[] }> {
  const rows = await sql<{ id: string }[]>`
    select id from billing_records b
    where workspace_id = ${workspaceId} and external_meter_id in (
      select external_meter_id from api_keys where workspace_id = ${workspaceId} and customer_id = ${customerId})
    limit ${MOST_FILTERED_RECORDS}`;
  return rows.length < MOST_FILTERED_RECORDS ? { billingIds: ['', ...rows.map(({ id }) => id)] } : {};
}
