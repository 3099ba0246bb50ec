import { useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { readItems, useRead } from '../../data/hooks.ts';
import { useMay } from '../../data/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Limits } from '../../parts/limits.tsx';
import { PageOf } from '../../parts/page.tsx';
import { Amount, Facts, None, Time } from '../../parts/text.tsx';
import { Credits, type Billing } from './credits.tsx';
import { Alerts } from './alerts.tsx';
import { Holds, Ledger, ProofOfBooks, Statement } from './books.tsx';
import { overageFields } from './customers.tsx';
import { Grants, type Grant } from './grants.tsx';
import { Schedules } from './schedules.tsx';
import { Usage } from './usage.tsx';
import { Outcomes } from '../keys/outcomes.tsx';
import { PortalLink } from './portal-link.tsx';

type Change = Omit<Input<'patch /api/v1/customer-billing/{bid}'>, 'bid'>;
type OnChange = (what: Change) => Promise<unknown>;

// What a link gives, which its maker must hold.
const linkNeeds = ['link:write', 'key:read', 'billing:read', 'usage:read'] as const;

/** One billing record: what it has, where that came from and where it went. */
export function Customer() {
  const may = useMay();
  const mayWrite = may('billing:write');
  const bid = useRoute().params['billing'] ?? '';
  const read = useRead(async (signal) => {
    const [{ billing }, grants] = await Promise.all([
      call('get /api/v1/customer-billing/{bid}', { bid }, signal),
      readItems('get /api/v1/customer-billing/{bid}/grants', { bid }, signal),
    ]);
    return { billing, grants };
  }, bid);
  const change: OnChange = (what) => call('patch /api/v1/customer-billing/{bid}', { bid, ...what });
  return (
    <PageOf
      of={read}
      name="Customer"
      show={({ billing, grants }) => ({
        title: billing.externalMeterId,
        action: (
          <>
            {mayWrite && <Actions of={billing} onChange={change} />}
            {linkNeeds.every(may) && <PortalLink of={billing} />}
          </>
        ),
        children: (
          <>
            <Balance billing={billing} grants={grants} />
            {may('usage:read') && (
              <>
                <Usage
                  bid={bid}
                  empty="Nothing was used. Verify a key of this meter with a cost, and it shows here within seconds."
                />
                <Outcomes of={{ externalMeterId: billing.externalMeterId }} why={`record=${bid}`} />
              </>
            )}
            <Grants
              grants={grants}
              empty="No credits yet. Add some, once or by a schedule."
              bid={mayWrite ? bid : undefined}
            />
            <Schedules bid={bid} mayWrite={mayWrite} />
            <Limits
              title="Limits"
              dialog="Limits of the record"
              limits={billing.limits}
              onChange={mayWrite && ((limits) => change({ limits }))}
            />
            <Alerts billing={billing} mayWrite={mayWrite} onChange={change} />
            <Holds bid={bid} />
            {may('usage:read') && <Statement bid={bid} />}
            <Ledger bid={bid} />
            <ProofOfBooks bid={bid} />
          </>
        ),
      })}
    />
  );
}

function Balance({ billing, grants }: { billing: Billing; grants: readonly Grant[] }) {
  return (
    <section>
      <Credits billing={billing} grants={grants} />
      <Facts
        of={[
          ['Granted, ever', <Amount of={billing.totalCredits} />],
          ['Used, ever', <Amount of={billing.usedCredits} />],
          ['When they are used up', billing.allowOverages ? 'calls go on' : 'calls are refused'],
          ['Spend cap', billing.spendCap === undefined ? <None /> : <Amount of={billing.spendCap} />],
          ['Id', <code>{billing.id}</code>],
          ['Made', <Time at={billing.createdAt} />],
        ]}
      />
    </section>
  );
}

function Actions({ of: billing, onChange }: { of: Billing; onChange: OnChange }) {
  const { id: bid, workspaceId, externalMeterId, allowOverages, spendCap } = billing;
  const [overage, cap] = overageFields;
  const what = 'What they are for, e.g. trial or bought in May.';
  const end = 'What is left then has expired. Empty: never.';
  return (
    <>
      <Ask
        look="main"
        title="Refill"
        submit="Add credits"
        fields={[
          { name: 'refill', label: 'Credits', as: 'credits', required: true, hint: 'Bought: they never expire.' },
        ]}
        onSubmit={(given) => call('post /api/v1/customer-billing/refill', { workspaceId, externalMeterId, ...given })}
      />
      <Ask
        title="Grant credits"
        submit="Grant"
        fields={[
          { name: 'credits', label: 'Credits', as: 'credits', required: true },
          { name: 'name', label: 'Name', hint: what },
          { name: 'beginsAt', label: 'Begins', as: 'moment', hint: 'In your time zone. Empty: now.' },
          { name: 'expiresAt', label: 'Ends', as: 'moment', hint: end },
          { name: 'priority', label: 'Priority', as: 'number', hint: 'A smaller one is used first.' },
        ]}
        onSubmit={(given) => call('post /api/v1/customer-billing/{bid}/grant', { bid, ...given })}
      />
      <Ask
        title="Overage and cap"
        submit="Save"
        fields={[
          { ...overage, value: allowOverages },
          { ...cap, value: spendCap, clears: true },
        ]}
        onSubmit={onChange}
      />
    </>
  );
}
