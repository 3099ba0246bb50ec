import { call, type Input } from '../../data/call.ts';
import { readItems, useAnswer, useHome, useMay, useRead, useSession, useWorkspace } from '../../data/hooks.ts';
import { lastDays } from '../../data/time.ts';
import { Ask } from '../../parts/dialog.tsx';
import { OwnList } from '../../parts/own-list.tsx';
import { Page, Tabs } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { Amount, Facts, grouped, Loaded, Time } from '../../parts/text.tsx';
import { AuditList } from '../audit.tsx';
import { Calls } from '../calls.tsx';
import { keyColumns } from '../keys/api-key.ts';
import { NewKey } from '../keys/new-key.tsx';
import { useLimitKind } from '../limits-used.ts';
import { LastUsage, sumOf } from '../usage.tsx';
import { AddCredits } from './add-credits.tsx';
import { alertKind } from './alerts.tsx';
import { ProofOfBooks, Statement } from './books.tsx';
import { Credits } from './credits.tsx';
import { microsIn, type Billing } from './billing-state.ts';
import { Ledger, Schedules, type Grant } from './grants.tsx';
import { ChangePlan, PlanOf, spendingOf } from './plans.tsx';
import { PortalLink } from './portal-link.tsx';

type Change = Omit<Input<'patch /api/v1/customer-billing/{bid}'>, 'bid'>;
type OnChange = (what: Change) => Promise<unknown>;

const UNUSED = 'Nothing was used. Verify a key of this customer with a cost, and it shows here within seconds.';

/** One customer: what it has, where that came from and where it went. */
export function Customer({ id: bid }: { id: string }) {
  const read = useRead(async () => {
    const [{ billing }, grants] = await Promise.all([
      call('get /api/v1/customer-billing/{bid}', { bid }),
      readItems('get /api/v1/customer-billing/{bid}/grants', { bid, limit: 200 }),
    ]);
    return { billing, grants };
  }, bid);
  useHome(read.value?.billing.workspaceId, `customers/${bid}`);
  return <Loaded of={read}>{(value) => <CustomerPage {...value} />}</Loaded>;
}

function CustomerPage({ billing, grants }: { billing: Billing; grants: readonly Grant[] }) {
  const may = useMay();
  const { isOfTeam } = useSession();
  const { id: bid, workspaceId, externalMeterId } = billing;
  const change: OnChange = (what) => call('patch /api/v1/customer-billing/{bid}', { bid, ...what });
  return (
    <Page title={externalMeterId} action={<Actions of={billing} onChange={change} />}>
      <section>
        <Credits billing={billing} grants={grants} />
        <BillingFacts of={billing} />
      </section>
      <Tabs
        of={{
          Keys: may('key:read') && (() => <Keys of={billing} />),
          Credits: () => (
            <>
              <Ledger bid={bid} grants={grants} />
              <Schedules bid={bid} />
            </>
          ),
          Usage: may('usage:read') && (() => <LastUsage of={{ workspaceId, billingId: bid }} empty={UNUSED} />),
          Calls: may('usage:read') && (() => <Calls of={{ externalMeterId }} bid={bid} />),
          'Limits and alerts': () => <LimitsAndAlerts of={billing} onChange={change} />,
          Statement: () => (
            <>
              {may('usage:read') && <Statement bid={bid} />}
              <ProofOfBooks bid={bid} />
            </>
          ),
          Activity: isOfTeam && may('audit:read') && (() => <AuditList find={{ resourceId: bid }} />),
        }}
      />
    </Page>
  );
}

function Keys({ of: { workspaceId, externalMeterId } }: { of: Billing }) {
  return (
    <List
      title="Keys"
      action={<NewKey customer={externalMeterId} look="outline" />}
      of="get /api/v1/workspace/{id}/api-keys"
      input={{ id: workspaceId, externalMeterId, deleted: false, limit: 200 }}
      columns={keyColumns.filter(({ title }) => title !== 'Customer')}
      empty="No key yet. Make one, and its calls draw on these credits."
    />
  );
}

function LimitsAndAlerts({ of: billing, onChange }: { of: Billing; onChange: OnChange }) {
  const { id: bid, externalMeterId, limits, alerts } = billing;
  const now = async () => (await call('get /api/v1/customer-billing/{bid}', { bid })).billing;
  return (
    <>
      <OwnList
        title="Limits"
        needs="billing:write"
        of={useLimitKind(limits, { externalMeterId })}
        items={limits}
        read={async () => (await now()).limits}
        onChange={(limits) => onChange({ limits })}
      />
      <OwnList
        title="Alerts"
        needs="billing:write"
        of={alertKind}
        items={alerts}
        read={async () => (await now()).alerts}
        onChange={(alerts) => onChange({ alerts })}
      />
      <List
        title="Crossed alerts"
        of="get /api/v1/customer-billing/{bid}/alerts"
        input={{ bid, limit: 100 }}
        columns={[
          { title: 'Alert', text: 'name' },
          { title: 'Crossed', time: 'at' },
          { title: 'Used then', amount: 'usedCredits' },
        ]}
        empty="No alert was crossed yet. A webhook tells you when one is."
      />
    </>
  );
}

// Of so many whole days before today the pace is taken.
const PACE_DAYS = 7;
const FAR_DAYS = 365;
// The longest month, of which today may be the last day.
const MONTH_DAYS = 31;
const DAY_MS = 86_400_000;

function BillingFacts({ of: billing }: { of: Billing }) {
  const { id: workspaceId, workspace } = useWorkspace();
  const { timezone } = workspace;
  const { from, to } = lastDays(timezone, MONTH_DAYS);
  const input = { workspaceId, billingId: billing.id, from, to, timezone, groupBy: 'billing', limit: 100 };
  const rows = useAnswer('get /api/v1/usage', useMay()('usage:read') ? input : undefined).value?.data;
  const usedIn = (isIn: (day: string) => boolean) =>
    sumOf((rows ?? []).filter(({ start }) => isIn(start.slice(0, 10))));
  const { from: paceFrom } = lastDays(timezone, PACE_DAYS + 1);
  const aDay = microsIn(usedIn((day) => day >= paceFrom && day < to)) / PACE_DAYS;
  const left = microsIn(billing.availableCredits);
  const days = left / aDay;
  const runsOut = aDay > 0 && days < FAR_DAYS ? <Time at={Date.now() + days * DAY_MS} isAgo /> : 'over a year';
  const { allowOverages, spendCap } = billing;
  const cap = spendCap === undefined ? 0 : microsIn(spendCap);
  const part = (100 * microsIn(billing.usedCredits)) / cap;
  return (
    <Facts
      of={[
        ['Plan', <PlanOf of={billing} />],
        ['Used today', rows && <Amount of={usedIn((day) => day === to)} />],
        ['Used this month', rows && <Amount of={usedIn((day) => day.startsWith(to.slice(0, 7)))} />],
        ['Runs out, at the pace of 7 days', rows && left > 0 && runsOut],
        ['Used, ever', <Amount of={billing.usedCredits} />],
        ['Spending below zero', allowOverages ? `allowed${spendCap ? ' up to the cap' : ''}` : 'not allowed'],
        ['Spend cap', spendCap && `${grouped(spendCap)}${cap > 0 ? `, ${part.toFixed(1)}% used` : ''}`],
        ['Created', <Time at={billing.createdAt} />],
        ['Id', <code>{billing.id}</code>],
      ]}
    />
  );
}

function Actions({ of: billing, onChange }: { of: Billing; onChange: OnChange }) {
  const [below, cap] = spendingOf(billing);
  return (
    <>
      <AddCredits to={billing} />
      <ChangePlan of={billing} />
      <Ask
        title="Spending rules"
        submit="Save"
        needs="billing:write"
        fields={[below, { ...cap, clears: true }]}
        onSubmit={onChange}
      />
      <PortalLink of={billing} />
    </>
  );
}
