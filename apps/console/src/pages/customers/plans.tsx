import { call, type Output } from '../../data/call.ts';
import { readItems, useAnswer, useRead, useWorkspace, type ItemOf } from '../../data/hooks.ts';
import { Ask, AskDialog, Opens } from '../../parts/dialog.tsx';
import type { FieldData, Given } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { Time } from '../../parts/text.tsx';

/** Whether a customer goes on without credits, and how far. */
export const spendingFields = [
  { name: 'allowOverages', label: 'Allow spending below zero', as: 'check' },
  { name: 'spendCap', label: 'Spend cap', as: 'credits', hint: 'The most that may be used, ever. Empty: no cap.' },
] as const satisfies readonly FieldData[];

type Plan = ItemOf<'get /api/v1/workspace/{id}/plans'>;
type Billing = Output<'get /api/v1/customer-billing/{bid}'>['billing'];

const NONE = ['', 'none'] as const;
const DAY_S = 86_400;

/** What customers are sold: their credits, bounds and defaults of keys under one name. */
export function Plans() {
  const { id } = useWorkspace();
  const actions = (plan: Plan) => (
    <>
      <Ask
        does="Edit"
        one="plan"
        row={plan.name}
        fields={[
          ...fieldsOf(plan),
          { name: 'all', label: 'Also for all customers that have it, from their next period on', as: 'check' },
        ]}
        onSubmit={({ all, ...given }) => {
          const change = { ...settingsIn(given, plan), spendCap: given.spendCap, apply: all ? 'all' : 'new' } as const;
          return call('patch /api/v1/workspace/{id}/plan/{pid}', { id, pid: plan.id, ...change });
        }}
        says="Limits, alerts, scopes and further allowances of a plan are set by the api, and stay."
      />{' '}
      <Ask
        does="Delete"
        one="plan"
        row={plan.name}
        onSubmit={() => call('delete /api/v1/workspace/{id}/plan/{pid}', { id, pid: plan.id })}
      />
    </>
  );
  const make = (
    <Ask
      does="New"
      one="plan"
      needs="billing:write"
      fields={fieldsOf({})}
      onSubmit={({ spendCap, ...given }) =>
        call('post /api/v1/workspace/{id}/plan', { id, ...settingsIn(given), spendCap: spendCap ?? undefined })
      }
    />
  );
  return (
    <Page title="Plans" action={make}>
      <List
        label="Plans"
        of="get /api/v1/workspace/{id}/plans"
        input={{ id, limit: 200 }}
        columns={[
          { title: 'Plan', text: 'name' },
          { title: 'Gives', width: '40%', text: givesOf },
          { title: 'Version', text: ({ version, applying }) => `${version}${applying ? ', being applied' : ''}` },
          { title: 'Changed', time: 'updatedAt' },
          { title: 'Change', width: '11rem', needs: 'billing:write', cell: actions },
        ]}
        empty="No plan yet. Make one, such as free or pro, and choose it for a new customer."
      />
    </Page>
  );
}

/** The plans to choose from, with none, once they are read. */
export function usePlans() {
  const { id } = useWorkspace();
  return useRead(async () => {
    const plans = await readItems('get /api/v1/workspace/{id}/plans', { id, limit: 200 });
    return [NONE, ...plans.map(({ id: planId, name }) => [planId, name] as const)];
  }, id);
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
export function ChangePlan({ of: billing }: { of: Billing }) {
  return (
    <Opens text="Change plan" needs="billing:write">
      <ChangePlanDialog of={billing} />
    </Opens>
  );
}

function ChangePlanDialog({ of: { id: bid, planId = '' } }: { of: Billing }) {
  const plans = usePlans();
  return (
    <AskDialog
      title="Change plan"
      submit="Save"
      after={plans}
      says="Now: what is left of the plan before is gone, and the new one begins. What you granted by hand stays."
      fields={[
        { name: 'planId', label: 'Plan', options: plans.value ?? [NONE], value: planId },
        {
          name: 'when',
          label: 'When',
          options: [
            ['now', 'now'],
            ['atPeriodEnd', 'when its period ends'],
          ],
        },
      ]}
      onSubmit={({ planId: chosen, when }) =>
        call('patch /api/v1/customer-billing/{bid}', { bid, planId: chosen || null, when })
      }
    />
  );
}

function fieldsOf({ name, grants, schedules, allowOverages, spendCap }: Partial<Plan>) {
  const [below, cap] = spendingFields;
  const [trial] = grants ?? [];
  const [allowance] = schedules ?? [];
  const days = trial?.expiresIn === undefined ? undefined : trial.expiresIn / DAY_S;
  return [
    { name: 'name', label: 'Name', required: true, maxLength: 128, value: name },
    { name: 'credits', label: 'Allowance', as: 'credits', value: allowance?.credits, hint: 'Empty: none.' },
    { name: 'every', label: 'Every', options: ['month', 'year', 'week', 'day'], value: allowance?.every },
    { name: 'trial', label: 'Credits at the start, once', as: 'credits', value: trial?.credits },
    { name: 'days', label: 'They end after days', as: 'number', min: '1', value: days, hint: 'Empty: never.' },
    { ...below, value: allowOverages },
    { ...cap, value: spendCap, clears: true },
  ] as const satisfies readonly FieldData[];
}

type Fields = Given<ReturnType<typeof fieldsOf>>;

// What the form does not have stays as it is.
function settingsIn(given: Omit<Fields, 'spendCap'>, { grants = [], schedules = [] }: Partial<Plan> = {}) {
  const { name, allowOverages, credits, every, trial, days } = given;
  const [first, ...otherGrants] = grants;
  const [main, ...otherSchedules] = schedules;
  const { expiresIn: _, ...ofFirst } = first ?? { name: 'trial', priority: 10 };
  const start = trial && { ...ofFirst, credits: trial, ...(days !== undefined && { expiresIn: days * DAY_S }) };
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
