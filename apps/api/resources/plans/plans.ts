import { Type, type Static } from 'typebox';
import { alerts } from '../../../../shared/contract/alerts.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { checkLimits, limits } from '../../../../shared/contract/limits.ts';
import { credits, id, named, object, timestamp, whole } from '../../../../shared/contract/schema-kinds.ts';
import { name, rateLimit } from '../../../../shared/contract/schemas.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { within } from '../access/access.ts';
import { checkedAlerts, creditsIn, someCreditsIn } from '../billings/billings.ts';
import type { GrantMaker } from '../grants/classes.ts';
import { priority } from '../grants/grants.ts';
import { checkPeriods, grantSchedule, newPeriods } from '../grants/schedules.ts';
import { grants as scopes } from '../keys/keys.ts';
import { holdGranted } from '../keys/new-keys.ts';
import { answered, jsonValue, present, tableOf, type Row, type Values } from '../rows.ts';

const MOST_OF_A_KIND = 4;
const YEARS_100 = 3_155_760_000;
const { name: scheduleName, rollover } = grantSchedule.properties;

/** What a plan gives its records and their keys: what requests set one by one. */
export const planSettings = {
  // Without a default: a PATCH would set it.
  allowOverages: Type.Optional(Type.Boolean({ description: 'whether use may go on beyond the credits' })),
  spendCap: Type.Optional(credits('most that may be used, ever')),
  limits: Type.Optional(limits),
  alerts: Type.Optional(alerts),
  grants: Type.Optional(
    Type.Array(
      named(
        'PlanGrant',
        object({
          credits: credits('credits to grant, above 0'),
          name: Type.Optional(name),
          expiresIn: Type.Optional(
            Type.Integer({
              minimum: 60,
              maximum: YEARS_100,
              description: 'after how many seconds it ends; default never',
              examples: [1_209_600],
            }),
          ),
          priority: Type.Optional(priority),
        }),
      ),
      {
        maxItems: MOST_OF_A_KIND,
        description: 'what a record is given once, when it is first given the plan: a trial is one that ends',
      },
    ),
  ),
  schedules: Type.Optional(
    Type.Array(
      named(
        'PlanSchedule',
        object({
          credits: credits('credits to grant for each period, above 0'),
          ...newPeriods,
          priority: Type.Optional(priority),
          name: scheduleName,
          rollover,
        }),
      ),
      {
        maxItems: MOST_OF_A_KIND,
        description:
          'what a record is given every day, week, month or year; without anchorAt from when it is given the plan',
      },
    ),
  ),
  keys: Type.Optional(
    object(
      {
        scopes: Type.Optional(scopes),
        rateLimitPerSecond: Type.Optional(rateLimit),
        limits: Type.Optional(limits),
      },
      { examples: [{ rateLimitPerSecond: 10 }] },
    ),
  ),
};
export type PlanSettings = Static<ReturnType<typeof object<typeof planSettings>>>;

export const plan = named(
  'Plan',
  object({
    id: id('plan'),
    workspaceId: id('workspace'),
    name,
    version: whole('each change makes the next one', 3),
    applying: Type.Boolean({ description: 'whether records with an earlier version are being given this one' }),
    ...planSettings,
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when it last changed'),
  }),
);

export type PlanRow = Omit<Row<typeof plan>, keyof PlanSettings> & { settings: PlanSettings };

const table = tableOf<PlanRow>(
  'plans',
  `id, workspace_id, name, version, applies_to is not null as applying, created_at, updated_at,
   (select settings from plan_versions v where v.plan_id = plans.id and v.version = plans.version) as settings`,
  'plan_not_found',
);
export const plans = answered('plan', table, presentPlan);

function presentPlan({ settings, ...row }: PlanRow): Static<typeof plan> {
  const { scopes, ...more } = settings.keys ?? {};
  const named = scopes?.map((stored: StoredScope) => {
    const { scopeId: _, ...scope } = stored;
    return scope;
  });
  const keys = { ...more, ...(named && { scopes: named }) };
  return present(plan, { ...settings, ...(settings.keys && { keys }), ...row } as Values<typeof plan>);
}

/** A plan keeps scopes by their ids too: one that was deleted is given no more, nor another one that has its name. */
type StoredScope = NonNullable<NonNullable<PlanSettings['keys']>['scopes']>[number] & { scopeId?: string };

/** The plan of a workspace that somebody is about to give: until the transaction ends it is not deleted, and its version counts as given. */
export async function holdPlan(sql: Query, workspaceId: string, planId: string): Promise<PlanRow> {
  if (isId(planId)) await sql`select from plans where id = ${planId} for key share`;
  return plans.require(sql, planId, within(sql, workspaceId));
}

/** A plan of a workspace that is about to be changed, which nobody else does until the transaction ends; `alone`: nor gives it. */
export async function lockPlan(
  sql: Query,
  workspaceId: string,
  planId: string,
  lock: { lock: true } | { alone: true },
) {
  await plans.require(sql, planId, within(sql, workspaceId), lock);
  // What is read after the lock has the version that whoever had the lock before has stored.
  return plans.require(sql, planId, within(sql, workspaceId));
}

/** What a key of a meter has where its request does not say: as the plan of the meter's billing record says, in the version that it has. */
export async function keyDefaults(
  sql: Query,
  { workspaceId, externalMeterId }: { workspaceId: string; externalMeterId?: string },
): Promise<PlanSettings['keys']> {
  if (externalMeterId === undefined || !isId(workspaceId)) return undefined;
  const [row] = await sql<{ keys: PlanSettings['keys'] }[]>`
    select settings -> 'keys' as keys from billing_records b
    join plan_versions v on v.plan_id = b.plan_id and v.version = b.plan_version
    where b.workspace_id = ${workspaceId} and b.external_meter_id = ${externalMeterId}`;
  const stored: StoredScope[] | undefined = row?.keys?.scopes;
  if (!stored) return row?.keys;
  const there = await sql<{ id: string; representation: string }[]>`
    select id, representation from scopes
    where id = any(${stored.map((scope) => scope.scopeId!)}) and deleted_at is null order by id for key share`;
  const names = new Map(there.map((scope) => [scope.id, scope.representation]));
  const scopes = stored.flatMap(({ scopeId, ...scope }) => {
    const representation = names.get(scopeId!);
    return representation === undefined ? [] : [{ ...scope, representation }];
  });
  return { ...row!.keys, scopes };
}

/** What a version of a plan gives; 404 without it. */
export async function requireVersion(sql: Query, planId: string, version: number): Promise<PlanSettings> {
  const [row] = await sql<{ settings: PlanSettings }[]>`
    select settings from plan_versions where plan_id = ${planId} and version = ${version}`;
  if (!row) throw new ApiError('plan_not_found');
  return row.settings;
}

/** Stores what a version of a plan gives. */
export async function insertVersion(
  sql: Query,
  { planId, version, settings }: { planId: string; version: number; settings: PlanSettings },
  { teamId, tokenId, requestId }: GrantMaker,
): Promise<void> {
  await sql`
    insert into plan_versions (plan_id, version, team_id, settings, token_id, request_id)
    values (${planId}, ${version}, ${teamId}, ${jsonValue(sql, settings)}, ${tokenId}, ${requestId})`;
}

/** What a plan of a workspace is to give, as it is stored. Throws 400 for what its schema can't tell. */
export async function checkedSettings(
  sql: Query,
  workspaceId: string,
  { spendCap, alerts: told, grants, schedules, ...rest }: PlanSettings,
): Promise<PlanSettings> {
  const { keys } = rest;
  const scopes: StoredScope[] | undefined = keys?.scopes;
  // What is stored stays, whatever has become of its scopes.
  const isNew = scopes?.some((scope) => scope.scopeId === undefined);
  const ids = isNew ? await holdGranted(sql, workspaceId, scopes!, 'keys/scopes') : undefined;
  checkLimits('limits', rest.limits);
  checkLimits('keys/limits', rest.keys?.limits);
  for (const [i, { rollover, ...one }] of (schedules ?? []).entries()) {
    checkPeriods(one, `/schedules/${i}`);
    if (rollover) creditsIn(`schedules/${i}/rollover/maxCredits`, rollover.maxCredits);
  }
  return {
    ...rest,
    ...(ids && {
      keys: { ...keys, scopes: scopes!.map((one) => ({ ...one, scopeId: ids.get(one.representation)! })) },
    }),
    ...(spendCap !== undefined && { spendCap: formatCredits(creditsIn('spendCap', spendCap)) }),
    ...(told && { alerts: checkedAlerts('alerts', told) }),
    ...(grants && { grants: withCredits('grants', grants) }),
    ...(schedules && { schedules: withCredits('schedules', schedules) }),
  };
}

/** The same with their credits as they are stored. */
function withCredits<Given extends { credits: string }>(field: string, given: Given[]): Given[] {
  const stored = (text: string, i: number) => formatCredits(someCreditsIn(`${field}/${i}/credits`, text));
  return given.map((one, i) => ({ ...one, credits: stored(one.credits, i) }));
}
