import { isDeepStrictEqual } from 'node:util';
import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace, within } from '../../resources/access/access.ts';
import {
  checkedSettings,
  insertVersion,
  lockPlan,
  plan,
  planSettings,
  plans,
  requireVersion,
  type PlanRow,
  type PlanSettings,
} from '../../resources/plans/plans.ts';
import { lockName } from '../../resources/rows.ts';

const MOST_PLANS = 100;
const { name, version } = plan.properties;
const { allowOverages, spendCap, limits, alerts, grants, schedules, keys } = planSettings;

export const createPlan = route('post', '/api/v1/workspace/{id}/plan', {
  summary: 'Create a plan: what billing records and their keys are given, under one name',
  description:
    'Holds what requests set one by one: overages, cap, limits, alerts, grants, grant schedules, and defaults of keys. A billing record is given it by `planId`. Prices and invoices stay with your biller.',
  permission: 'billing:write',
  status: 201,
  body: object({ name, ...planSettings }),
  response: object({ plan }),
  errors: ['unknown_scope', 'plan_limit_reached', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed, requestId }) {
    await requireWorkspace(sql, caller, params.id, { hold: true });
    await lockName(sql, `plans of ${params.id}`);
    await plans.requireFew(sql, within(sql, params.id), MOST_PLANS, 'plan_limit_reached');
    const { name, ...given } = body;
    const settings = await checkedSettings(sql, params.id, given);
    const row = await plans.insert(sql, { id: newId('plan'), teamId: caller.teamId, workspaceId: params.id, name });
    await insertVersion(sql, { planId: row.id, version: row.version, settings }, { ...caller, requestId });
    return { plan: plans.say(changed, { after: { ...row, settings } }) };
  },
});

export const listPlans = listRoute('/api/v1/workspace/{id}/plans', 'plans', plan, {
  summary: 'List the plans of a workspace, oldest first',
  description: 'Each as its latest version says.',
  permission: 'billing:read',

  async open({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    return plans.list(sql, within(sql, params.id));
  },
});

export const getPlan = route('get', '/api/v1/workspace/{id}/plan/{pid}', {
  summary: 'Get a plan, as it is or as a version of it was',
  description: 'A billing record names the version that it was given.',
  permission: 'billing:read',
  query: object({ version: Type.Optional({ ...version, description: 'default: the latest', minimum: 1 }) }),
  response: object({ plan }),

  async handle({ sql, params, query, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const row = await plans.require(sql, params.pid, within(sql, params.id));
    const { version = row.version } = query;
    return { plan: plans.present({ ...row, version, settings: await requireVersion(sql, row.id, version) }) };
  },
});

export const updatePlan = route('patch', '/api/v1/workspace/{id}/plan/{pid}', {
  summary: 'Change a plan, for records that are given it later or for all that have it',
  description:
    'Makes the next version, unless nothing changes. With `apply: "all"` each record of the plan is given it, within minutes: what somebody set on a record by hand stays, running periods end as they were granted, and those that follow are as the new version says. `grants` are not given to it: they are for records that come to the plan.',
  permission: 'billing:write',
  body: object({
    name: Type.Optional(name),
    allowOverages,
    spendCap: Type.Optional(nullable(spendCap)),
    limits: Type.Optional(nullable(limits)),
    alerts: Type.Optional(nullable(alerts)),
    grants: Type.Optional(nullable(grants)),
    schedules: Type.Optional(nullable(schedules)),
    keys: Type.Optional(nullable(keys)),
    apply: Type.Optional(
      Type.Enum(['new', 'all'], {
        default: 'new',
        description: 'whether records that have the plan are given the change',
      }),
    ),
  }),
  response: object({ plan }),
  errors: ['unknown_scope', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed, requestId }) {
    await requireWorkspace(sql, caller, params.id, { hold: true });
    const before = await lockPlan(sql, params.id, params.pid, { lock: true });
    const { name = before.name, apply, ...given } = body;
    const settings = await checkedSettings(sql, params.id, changedBy(before.settings, given));
    const isSame = name === before.name && isDeepStrictEqual(settings, before.settings);
    const version = isSame ? before.version : before.version + 1;
    if (!isSame) await insertVersion(sql, { planId: before.id, version, settings }, { ...caller, requestId });
    const [row] = await sql<[PlanRow]>`
      update plans set name = ${name}, version = ${version}, applies_to = ${apply === 'all' ? version : sql`applies_to`},
        updated_at = ${isSame ? sql`updated_at` : sql`now()`}
      where id = ${before.id} returning ${plans.columns(sql)}`;
    return { plan: plans.say(changed, { before, after: row }) };
  },
});

export const deletePlan = route('delete', '/api/v1/workspace/{id}/plan/{pid}', {
  summary: 'Delete a plan that no billing record has',
  description: 'Its versions stay, for the audit log.',
  permission: 'billing:write',
  response: object({ plan }),
  errors: ['plan_in_use'],

  async handle({ sql, params, caller, changed }) {
    await requireWorkspace(sql, caller, params.id, { hold: true });
    // Who gives the plan holds it until that is stored.
    const before = await lockPlan(sql, params.id, params.pid, { alone: true });
    const [{ inUse }] = await sql<[{ inUse: boolean }]>`
      select exists (select from billing_records where plan_id = ${before.id})
        or exists (select from billing_records where next_plan_id = ${before.id}) as in_use`;
    if (inUse) throw new ApiError('plan_in_use');
    await plans.remove(sql, before.id);
    return { plan: plans.say(changed, { before }) };
  },
});

type Given = { [Field in keyof PlanSettings]?: PlanSettings[Field] | null };

/** What a plan gives after a PATCH, of which `null` clears a field. */
function changedBy(before: PlanSettings, given: Given): PlanSettings {
  const after = Object.entries({ ...before, ...given }).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(after) as PlanSettings;
}
