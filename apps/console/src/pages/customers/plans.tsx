import { call } from '../../data/call.ts';
import { readItems, useAnswer, useWorkspace, type ItemOf } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import type { Fields, Given } from '../../parts/form.tsx';
import { changesOf } from '../../parts/own-list.tsx';
import { List } from '../../parts/table.tsx';
import { Time } from '../../parts/text.tsx';
import type { Billing } from './billing-state.ts';

/** Fields for whether a customer goes on without credits, and how far. */
export function spendingOf({ allowOverages, spendCap }: Partial<Pick<Billing, 'allowOverages' | 'spendCap'>>) {
  const hint = 'The most that may be used, ever. Empty: no cap.';
  return [
    { name: 'allowOverages', label: 'Allow spending below zero', as: 'check', value: allowOverages },
    { name: 'spendCap', label: 'Spend cap', as: 'credits', hint, value: spendCap },
  ] as const satisfies Fields;
}

type Plan = ItemOf<'get /api/v1/workspace/{id}/plans'>;

const DAY_S = 86_400;
// The least is a minute.
const DAYS = { as: 'number', min: '0.0006', step: 'any' } as const;
const FOR_ALL = 'Also for all customers that have it, from their next period on';

/** What customers are sold: their credits, bounds and defaults of keys under one name. */
export function Plans() {
  const { id } = useWorkspace();
  const [make, column] = changesOf<Plan, ReturnType<typeof fieldsOf>>({
    one: 'plan',
    needs: 'billing:write',
    nameOf: ({ name }) => name,
    fieldsOf,
    add: (given) =>
      call('post /api/v1/workspace/{id}/plan', { id, ...settingsIn(given), spendCap: given.spendCap ?? undefined }),
    async change({ id: pid }, given) {
      // As it is by now: grants and schedules are written as a whole.
      const { plan } = await call('get /api/v1/workspace/{id}/plan/{pid}', { id, pid });
      const { all, spendCap } = given;
      const change = { ...settingsIn(given, plan), spendCap, apply: all ? 'all' : 'new' } as const;
      return call('patch /api/v1/workspace/{id}/plan/{pid}', { id, pid, ...change });
    },
    remove: ({ id: pid }) => call('delete /api/v1/workspace/{id}/plan/{pid}', { id, pid }),
    keeps: 'Limits, alerts, scopes and further allowances of a plan are set by the api, and stay.',
  });
  return (
    <List
      page="Plans"
      action={make}
      of="get /api/v1/workspace/{id}/plans"
      input={{ id, limit: 200 }}
      columns={[
        { title: 'Plan', text: 'name' },
        { title: 'Gives', width: '40%', text: givesOf },
        { title: 'Version', text: ({ version, applying }) => `${version}${applying ? ', being applied' : ''}` },
        { title: 'Changed', time: 'updatedAt' },
        column,
      ]}
      empty="No plan yet. Make one, such as free or pro, and choose it for a new customer."
    />
  );
}

/** The plans of a workspace to choose from, and none. */
export async function plansIn(id: string) {
  const plans = await readItems('get /api/v1/workspace/{id}/plans', { id, limit: 200 });
  return [['', 'none'] as const, ...plans.map(({ id: planId, name }) => [planId, name] as const)];
}

/** The plan of a customer, and which one it has next. */
export function PlanOf({ of: { planId, planVersion, nextPlanId, nextPlanAt } }: { of: Billing }) {
  const { id } = useWorkspace();
  const nameOf = (pid: string | undefined) =>
    useAnswer('get /api/v1/workspace/{id}/plan/{pid}', pid === undefined ? undefined : { id, pid }).value?.plan.name;
  const [name, next] = [nameOf(planId), nameOf(nextPlanId)];
  return (
    <>
      {name ?? 'none'} {planId !== undefined && <span class="muted">version {planVersion}</span>}
      {nextPlanAt !== undefined && (
        <>
          , then {next ?? 'none'} <Time at={nextPlanAt} />
        </>
      )}
    </>
  );
}

/** A button that gives a customer another plan. */
export function ChangePlan({ of: { id: bid, workspaceId, planId = '' } }: { of: Billing }) {
  return (
    <Ask
      title="Change plan"
      submit="Save"
      needs="billing:write"
      reads={() => plansIn(workspaceId)}
      says="Now: what is left of the plan before is gone, and the new one begins. What you granted by hand stays."
      fields={(plans) => [
        { name: 'planId', label: 'Plan', options: plans, value: planId },
        { name: 'when', label: 'When', options: { now: 'now', atPeriodEnd: 'when its period ends' } },
      ]}
      onSubmit={(given) =>
        call('patch /api/v1/customer-billing/{bid}', { bid, ...given, planId: given.planId || null })
      }
    />
  );
}

function fieldsOf({ id, name, grants, schedules, ...spending }: Partial<Plan>) {
  const [below, cap] = spendingOf(spending);
  const [trial] = grants ?? [];
  const [allowance] = schedules ?? [];
  const days = trial?.expiresIn === undefined ? undefined : trial.expiresIn / DAY_S;
  return [
    { name: 'name', label: 'Name', required: true, maxLength: 128, value: name },
    { name: 'credits', label: 'Allowance', as: 'credits', value: allowance?.credits, hint: 'Empty: none.' },
    { name: 'every', label: 'Every', options: ['month', 'year', 'week', 'day'], value: allowance?.every },
    { name: 'trial', label: 'Credits at the start, once', as: 'credits', value: trial?.credits },
    { name: 'days', label: 'They end after days', ...DAYS, value: days, hint: 'Empty: never.' },
    below,
    { ...cap, clears: true },
    ...(id === undefined ? [] : ([{ name: 'all', label: FOR_ALL, as: 'check' }] as const)),
  ] as const satisfies Fields;
}

// What the form does not have stays as it is.
function settingsIn(given: Given<ReturnType<typeof fieldsOf>>, { grants = [], schedules = [] }: Partial<Plan> = {}) {
  const { name, allowOverages, credits, every, trial, days } = given;
  const [first, ...otherGrants] = grants;
  const [main, ...otherSchedules] = schedules;
  const { expiresIn: _, ...ofFirst } = first ?? { name: 'trial', priority: 10 };
  const ends = days !== undefined && { expiresIn: Math.round(days * DAY_S) };
  const start = trial && { ...ofFirst, credits: trial, ...ends };
  return {
    name,
    allowOverages,
    grants: [...(start ? [start] : []), ...otherGrants],
    schedules: [...(credits ? [{ name: 'allowance', ...main, credits, every }] : []), ...otherSchedules],
  };
}

function givesOf({ grants = [], schedules = [], allowOverages, spendCap }: Plan): string {
  const all = [
    ...schedules.map(({ credits, every }) => `${credits} every ${every}`),
    ...grants.map(({ credits, name }) => `${credits} once${name === undefined ? '' : ` (${name})`}`),
    allowOverages && (spendCap === undefined ? 'below zero' : `below zero up to ${spendCap}`),
  ];
  return all.filter(Boolean).join(', ') || 'nothing';
}
