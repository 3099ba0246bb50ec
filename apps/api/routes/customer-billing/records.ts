import { Type, type Static } from 'typebox';
import { noteCreditLooks } from '../../../../shared/books/credit-states.ts';
import { alerts } from '../../../../shared/contract/alerts.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { checkLimits, limits } from '../../../../shared/contract/limits.ts';
import { credits, id, nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { billing, externalIds, externalMeterId, warnings, customerId } from '../../../../shared/contract/schemas.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import {
  creditsIn,
  insertBilling,
  presentBilling,
  copiedAmounts,
  presentAmounts,
  billings,
  requireBilling,
  requireBillingOfMeter,
  lockBilling,
  type BillingRow,
  checkedAlerts,
  alertWarnings,
} from '../../resources/billings/billings.ts';
import { grantErrors } from '../../resources/grants/grants.ts';
import { settingNames } from '../../resources/plans/give.ts';
import { changePlan, startPlan } from '../../resources/plans/change.ts';
import { matching } from '../../resources/rows.ts';

export const planErrors = ['plan_not_found', 'grant_schedule_limit_reached', ...grantErrors] as const;

export const createBilling = route('post', '/api/v1/customer-billing', {
  summary: "Create the billing record of a workspace's external meter",
  description: 'Makes the record that verifications of keys with the same external meter are debited to.',
  permission: 'billing:write',
  status: 201,
  grows: true,
  body: object({
    workspaceId: id('workspace'),
    externalMeterId,
    totalCredits: Type.Optional(credits('initial credits', { default: '0' })),
    allowOverages: Type.Optional(
      Type.Boolean({ description: 'whether use may go on beyond totalCredits; default false, or what planId says' }),
    ),
    spendCap: Type.Optional(credits('most that may be used')),
    limits: Type.Optional(limits),
    alerts: Type.Optional(nullable(alerts)),
    externalIds: Type.Optional(externalIds),
    planId: Type.Optional({
      ...id('plan', ' of the workspace that it is given'),
      description:
        'id of a plan of the workspace: the record has its settings and is granted its credits; what else the request says goes before it',
    }),
  }),
  response: object({ billing, warnings: Type.Optional(warnings) }),
  errors: ['workspace_forbidden', 'billing_exists', ...planErrors],

  async handle({ sql, body, caller, changed, redis, requestId }) {
    await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    checkLimits('limits', body.limits);
    const { workspaceId, externalMeterId, totalCredits = '0', allowOverages = false, spendCap } = body;
    const { limits, alerts, externalIds } = body;
    const made = await insertBilling(sql, caller, {
      workspaceId,
      externalMeterId,
      totalMicros: creditsIn('totalCredits', totalCredits),
      allowOverages,
      spendCapMicros: spendCap === undefined ? null : creditsIn('spendCap', spendCap),
      limits,
      alerts: checkedAlerts('alerts', alerts),
      externalIds,
    });
    if (!made) throw new ApiError('billing_exists');
    let row = made;
    if (body.planId !== undefined) {
      await startPlan({ sql, redis, changed, maker: { ...caller, requestId } }, made, body.planId);
      row = await assign(sql, made.id, body);
    }
    billings.say(changed, { after: row });
    return { billing: await presentBilling(redis, row), ...alertWarnings(row) };
  },
});

export const listBillings = listRoute('/api/v1/workspace/{id}/customer-billings', 'billings', billing, {
  summary: 'List the billing records of a workspace',
  description:
    'Amounts are those of a copy, at most 60 s old; `GET /api/v1/customer-billing/{bid}` gives those of now. Pages follow by `cursor`, in the order in which the records were made; with `availableBelow` those with the least are first, with `customerId` they are in the order of their meters. With `search` a page may have few records, or none, while `nextCursor` leads on.',
  permission: 'billing:read',
  query: {
    externalMeterId: Type.Optional(externalMeterId),
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description: 'only records with this text in their externalMeterId, in any case',
      }),
    ),
    customerId: Type.Optional({
      ...customerId,
      description: 'only records that keys of this customer draw on, or drew on until they were deleted',
    }),
    availableBelow: Type.Optional(credits('only records with less than this available')),
  },

  async open({ sql, params, query, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const filter: BillingFilter = {
      workspaceId: params.id,
      externalMeterId: query.externalMeterId,
      customerId: query.customerId,
      belowMicros: query.availableBelow === undefined ? undefined : creditsIn('availableBelow', query.availableBelow),
    };
    const wanted = query.search?.toLowerCase();
    const isFound = ({ externalMeterId }: BillingRow) =>
      wanted === undefined || externalMeterId.toLowerCase().includes(wanted);
    return {
      read: (after, take) => billingsAfter(sql, filter, after, take),
      // No index leads to these: a page may have few, and another follows.
      present: ({ row }) => (isFound(row) ? presentAmounts(row, copiedAmounts(row)) : undefined),
      order: orderOf(filter),
    };
  },
});

export const getBillingOfMeter = route('get', '/api/v1/customer-billing', {
  summary: "Get the billing record of a workspace's external meter",
  description: 'Finds the billing record by the workspace and your own id of the meter.',
  permission: 'billing:read',
  query: object({ workspaceId: id('workspace'), externalMeterId }),
  response: object({ billing }),
  errors: ['workspace_forbidden', 'billing_not_found'],

  async handle({ sql, query, caller, redis }) {
    return { billing: await presentBilling(redis, await requireBillingOfMeter(sql, caller, query)) };
  },
});

export const getBilling = route('get', '/api/v1/customer-billing/{bid}', {
  summary: 'Get a billing record by its id',
  description: 'Gives the credits that were bought and used, as exact decimal text.',
  permission: 'billing:read',
  response: object({ billing }),

  async handle({ sql, params, caller, redis }) {
    return { billing: await presentBilling(redis, await requireBilling(sql, caller, params.bid)) };
  },
});

export const updateBilling = route('patch', '/api/v1/customer-billing/{bid}', {
  summary:
    'Change whether a billing record allows overages, its spend cap, its limits, its alerts and its ids elsewhere',
  description:
    'Sets what happens at the end of the credits: whether use may go on as overage, and up to which cap, and which alerts are told. It is in force before the answer.',
  permission: 'billing:write',
  body: object({
    allowOverages: Type.Optional(Type.Boolean({ description: 'whether use may go on beyond totalCredits' })),
    spendCap: Type.Optional(nullable(credits('most that may be used; null for no cap'))),
    limits: Type.Optional(nullable(limits)),
    alerts: Type.Optional(nullable(alerts)),
    externalIds: Type.Optional(nullable(externalIds)),
    planId: Type.Optional(
      nullable({
        ...id('plan'),
        description:
          'id of another plan of the workspace: its settings and credits take the place of what the plan before gave; null: none, settings stay. What else the request says goes before it',
      }),
    ),
    when: Type.Optional(
      Type.Enum(['now', 'atPeriodEnd'], {
        default: 'now',
        description:
          'when planId takes effect. now: what is left of what the plan before gave is voided. atPeriodEnd: when its longest running period ends; at once where it has none. Its own planId takes that back',
      }),
    ),
    planVersion: Type.Optional(
      Type.Enum(['latest'], {
        description: 'with its own planId: gives it the latest version of that; left out, it keeps the one that it has',
      }),
    ),
  }),
  response: object({ billing, warnings: Type.Optional(warnings) }),
  errors: ['workspace_deleted', 'quota_exceeded', ...planErrors],

  async handle({ sql, params, body, caller, changed, redis, requestId }) {
    const before = await lockBilling(sql, caller, params.bid);
    checkLimits('limits', body.limits);
    const { planId, when = 'now', planVersion } = body;
    if (planVersion && planId === undefined) throw invalidField('/planVersion', 'must be given with planId');
    // The plan would take its place at that end, unnoticed.
    const early = when === 'now' ? undefined : settingNames.find((name) => body[name] !== undefined);
    if (early)
      throw invalidField(`/${early}`, 'cannot be given with when: atPeriodEnd; set it once the plan has changed');
    const changing = { sql, redis, changed, maker: { ...caller, requestId } };
    const amounts =
      planId === undefined
        ? undefined
        : await changePlan(changing, before, planId, { when, latest: planVersion !== undefined });
    const row = await assign(sql, before.id, body);
    // What it may be used for may have become more, or less than what is used.
    await noteCreditLooks(sql, [row.id]);
    billings.say(changed, { before, after: row });
    const billing = amounts ? presentAmounts(row, amounts) : await presentBilling(redis, row);
    return { billing, ...alertWarnings(row) };
  },
});

type Settings = Pick<Static<typeof billing>, 'allowOverages' | 'spendCap' | 'limits' | 'alerts' | 'externalIds'>;
type Assigned = { [Field in keyof Settings]?: Settings[Field] | null };

/** Stores what a request sets of a record. */
function assign(
  sql: Query,
  id: string,
  { allowOverages, spendCap, limits, alerts, externalIds }: Assigned,
): Promise<BillingRow> {
  const spendCapMicros = spendCap && creditsIn('spendCap', spendCap);
  const told = checkedAlerts('alerts', alerts);
  return billings.update(sql, id, { allowOverages, spendCapMicros, limits, alerts: told, externalIds });
}

/** Which records of a workspace a list has. */
type BillingFilter = {
  workspaceId: string;
  externalMeterId: string | undefined;
  customerId: string | undefined;
  belowMicros: number | undefined;
};

/** A record with its place in a list. */
type ListedBilling = { id: string; row: BillingRow };

/** What a list is ordered by. Each order is that of an index, so that a page reads its own rows, however many there are. */
function orderOf({ customerId, belowMicros }: BillingFilter): 'meter' | 'available' | 'id' {
  if (customerId !== undefined) return 'meter';
  return belowMicros === undefined ? 'id' : 'available';
}

/** The next records of a list after a place. */
export async function billingsAfter(
  sql: Query,
  filter: BillingFilter,
  after: string,
  take: number,
): Promise<ListedBilling[]> {
  const { workspaceId, customerId, belowMicros } = filter;
  const order = orderOf(filter);
  const isBelow = belowMicros === undefined ? sql`` : sql`and ${available(sql)} < ${belowMicros}::bigint`;
  const isWanted = sql`${matching(sql, { workspaceId, externalMeterId: filter.externalMeterId })} ${isBelow}`;
  if (order === 'meter') {
    // Steps from meter to meter of the customer's keys: it may have many keys of one meter. A cursor names the record: its meter may
    // be longer than a cursor.
    const meterOf = sql`(select external_meter_id from billing_records where workspace_id = ${workspaceId} and id = ${after})`;
    const nextMeter = (than: ReturnType<Query>) => sql`
      select k.external_meter_id from api_keys k
      where k.workspace_id = ${workspaceId} and k.customer_id = ${customerId!} and k.external_meter_id > ${than}
      order by k.external_meter_id limit 1`;
    const rows = await sql<BillingRow[]>`
      with recursive meters as (
        (${nextMeter(sql`coalesce(${meterOf}, '')`)})
        union all
        select (${nextMeter(sql`m.external_meter_id`)}) from meters m where m.external_meter_id is not null)
      select b.* from meters m cross join lateral (
        select ${billings.columns(sql)} from billing_records b
        where external_meter_id = m.external_meter_id and ${isWanted}) b
      limit ${take}`;
    return rows.map((row) => ({ id: row.id, row }));
  }
  if (order === 'id') return (await billings.page(sql, isWanted, after, take)).map((row) => ({ id: row.id, row }));
  // Amounts below 0 stand in the cursor too: a text has no dot.
  const [, micros = null, id = ''] = /^(-?\d{1,16}):(.+)$/.exec(after) ?? [];
  if (after !== '' && micros === null) throw new ApiError('invalid_cursor');
  const rows = await sql<(BillingRow & { available: number })[]>`
    select ${billings.columns(sql)}, ${available(sql)} as available from billing_records b
    where ${isWanted} ${micros === null ? sql`` : sql`and (${available(sql)}, id) > (${micros}::bigint, ${id})`}
    order by ${available(sql)}, id limit ${take}`;
  return rows.map(({ available: left, ...row }) => ({ id: `${left}:${row.id}`, row }));
}

/** The expression of the index billing_records_available. */
function available(sql: Query) {
  return sql`(greatest(total_of_account_micros, total_micros + granted_micros) - used_micros - held_micros - expired_micros)`;
}
