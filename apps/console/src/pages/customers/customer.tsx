import { useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { readItems, useMay, useRead } from '../../data/hooks.ts';
import { Ask, Opens } from '../../parts/dialog.tsx';
import { Limits } from '../../parts/limits.tsx';
import { Outcomes } from '../../parts/outcomes.tsx';
import { PageOf } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { Amount, Facts, None, Time } from '../../parts/text.tsx';
import { Refusals } from '../refusals.tsx';
import { Credits, type Billing } from './credits.tsx';
import { Alerts } from './alerts.tsx';
import { ProofOfBooks, Statement } from './books.tsx';
import { overageFields } from './customers.tsx';
import { Grants, Schedules, type Grant } from './grants.tsx';
import { NewLink } from './portal-link.tsx';
import { Usage } from './usage.tsx';

type Change = Omit<Input<'patch /api/v1/customer-billing/{bid}'>, 'bid'>;
type OnChange = (what: Change) => Promise<unknown>;

// What a link gives, which its maker must hold.
const linkNeeds = ['link:write', 'key:read', 'billing:read', 'usage:read'] as const;

/** One billing record: what it has, where that came from and where it went. */
export function Customer() {
  const may = useMay();
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
      show={({ billing, grants }) => {
        const ofMeter = { workspaceId: billing.workspaceId, externalMeterId: billing.externalMeterId };
        return {
          title: billing.externalMeterId,
          action: (
            <>
              <Actions of={billing} onChange={change} />
              <Opens text="Portal link" needs={linkNeeds.every(may) && 'link:write'}>
                <NewLink of={billing} />
              </Opens>
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
                  <Outcomes of={ofMeter} />
                  <Refusals of={ofMeter} bid={bid} />
                </>
              )}
              <Grants grants={grants} empty="No credits yet. Add some, once or by a schedule." bid={bid} />
              <Schedules bid={bid} />
              <Limits
                title="Limits"
                limits={billing.limits}
                needs="billing:write"
                read={async () => (await call('get /api/v1/customer-billing/{bid}', { bid })).billing.limits}
                onChange={(limits) => change({ limits })}
              />
              <Alerts billing={billing} onChange={change} />
              <List
                title="Holds"
                of="get /api/v1/customer-billing/{bid}/holds"
                input={{ bid, limit: 200 }}
                columns={[
                  { title: 'For', text: 'usageName', isMain: true },
                  { title: 'Held', amount: 'credits' },
                  { title: 'Ends', time: 'expiresAt' },
                  {
                    title: 'Then',
                    text: ({ onExpiry }) => (onExpiry === 'charge' ? 'charged' : 'released'),
                    isExtra: true,
                  },
                ]}
                empty="No open hold. A verification holds credits where its cost is known only afterwards."
              />
              {may('usage:read') && <Statement bid={bid} />}
              <List
                title="Ledger"
                of="get /api/v1/customer-billing/{bid}/ledger"
                input={{ bid, limit: 200 }}
                columns={[
                  { title: 'Refilled', time: 'createdAt' },
                  { title: 'Credits', amount: 'amount' },
                  { title: 'Bought by then', amount: 'totalCredits' },
                  { title: 'By', code: 'tokenId', isExtra: true },
                ]}
                empty="No refill yet. A refill adds bought credits that never expire."
              />
              <ProofOfBooks bid={bid} />
            </>
          ),
        };
      }}
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
  const needs = 'billing:write';
  const [overage, cap] = overageFields;
  const what = 'What they are for, e.g. trial or bought in May.';
  const end = 'What is left then has expired. Empty: never.';
  return (
    <>
      <Ask
        look="main"
        title="Refill"
        submit="Add credits"
        needs={needs}
        fields={[
          { name: 'refill', label: 'Credits', as: 'credits', required: true, hint: 'Bought: they never expire.' },
        ]}
        onSubmit={(given) => call('post /api/v1/customer-billing/refill', { workspaceId, externalMeterId, ...given })}
      />
      <Ask
        title="Grant credits"
        submit="Grant"
        needs={needs}
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
        needs={needs}
        fields={[
          { ...overage, value: allowOverages },
          { ...cap, value: spendCap, clears: true },
        ]}
        onSubmit={onChange}
      />
    </>
  );
}
