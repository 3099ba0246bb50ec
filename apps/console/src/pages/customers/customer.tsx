import { call, type Input } from '../../data/call.ts';
import { readItems, useMay, useRead } from '../../data/hooks.ts';
import { Ask, Opens } from '../../parts/dialog.tsx';
import { limitKind } from '../../parts/limits.tsx';
import { OwnList } from '../../parts/own-list.tsx';
import { Page } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { Amount, Facts, Loaded, None, Time } from '../../parts/text.tsx';
import { Decided } from '../decisions.tsx';
import { Credits, type Billing } from './credits.tsx';
import { alertKind } from './alerts.tsx';
import { ProofOfBooks, Statement } from './books.tsx';
import { overageFields } from './customers.tsx';
import { keyColumns } from '../keys/keys.tsx';
import { Grants, Schedules, type Grant } from './grants.tsx';
import { NewLink } from './portal-link.tsx';
import { LastUsage } from '../usage.tsx';

type Change = Omit<Input<'patch /api/v1/customer-billing/{bid}'>, 'bid'>;
type OnChange = (what: Change) => Promise<unknown>;

const thens = { charge: 'charged', release: 'released' };
// What a link gives, which its maker must hold.
const linkNeeds = ['link:write', 'key:read', 'billing:read', 'usage:read'] as const;

/** One billing record: what it has, where that came from and where it went. */
export function Customer({ id: bid }: { id: string }) {
  const read = useRead(async () => {
    const [{ billing }, grants] = await Promise.all([
      call('get /api/v1/customer-billing/{bid}', { bid }),
      readItems('get /api/v1/customer-billing/{bid}/grants', { bid, limit: 200 }),
    ]);
    return { billing, grants };
  }, bid);
  return <Loaded of={read}>{(value) => <CustomerPage {...value} />}</Loaded>;
}

function CustomerPage({ billing, grants }: { billing: Billing; grants: readonly Grant[] }) {
  const may = useMay();
  const { id: bid, workspaceId, externalMeterId } = billing;
  const now = async () => (await call('get /api/v1/customer-billing/{bid}', { bid })).billing;
  const change: OnChange = (what) => call('patch /api/v1/customer-billing/{bid}', { bid, ...what });
  const needs = 'billing:write';
  return (
    <Page title={externalMeterId} action={<Actions of={billing} onChange={change} />}>
      <Balance billing={billing} grants={grants} />
      {may('usage:read') && (
        <>
          <LastUsage
            of={{ workspaceId, billingId: bid }}
            empty="Nothing was used. Verify a key of this meter with a cost, and it shows here within seconds."
          />
          <Decided of={{ workspaceId, externalMeterId }} bid={bid} />
        </>
      )}
      {may('key:read') && (
        <List
          title="Keys"
          of="get /api/v1/workspace/{id}/api-keys"
          input={{ id: workspaceId, externalMeterId, limit: 200 }}
          columns={keyColumns}
          empty="No key has this meter. Make one with it, and its calls draw on this record."
        />
      )}
      <Grants of={grants} empty="No credits yet. Add some, once or by a schedule." bid={bid} />
      <Schedules bid={bid} />
      <OwnList
        title="Limits"
        of={limitKind}
        items={billing.limits}
        needs={needs}
        read={async () => (await now()).limits}
        onChange={(limits) => change({ limits })}
      />
      <OwnList
        title="Alerts"
        of={alertKind}
        items={billing.alerts}
        needs={needs}
        read={async () => (await now()).alerts}
        onChange={(alerts) => change({ alerts })}
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
      <List
        title="Holds"
        of="get /api/v1/customer-billing/{bid}/holds"
        input={{ bid, limit: 200 }}
        columns={[
          { title: 'For', text: 'usageName' },
          { title: 'Held', amount: 'credits' },
          { title: 'Ends', time: 'expiresAt' },
          { title: 'Then', text: ({ onExpiry }) => thens[onExpiry] },
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
          { title: 'By', code: 'tokenId' },
        ]}
        empty="No refill yet. A refill adds bought credits that never expire."
      />
      <ProofOfBooks bid={bid} />
    </Page>
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
  const credits = { name: 'credits', label: 'Credits', as: 'credits', required: true } as const;
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
        fields={[{ ...credits, name: 'refill', hint: 'Bought: they never expire.' }]}
        onSubmit={(given) => call('post /api/v1/customer-billing/refill', { workspaceId, externalMeterId, ...given })}
      />
      <Ask
        title="Grant credits"
        submit="Grant"
        needs={needs}
        fields={[
          credits,
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
      <Opens text="Portal link" needs={linkNeeds.every(useMay()) && 'link:write'}>
        <NewLink of={billing} />
      </Opens>
    </>
  );
}
