import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { useWorkspace } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Form, type FieldData } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { billingState, CreditsBar } from './credits.tsx';

type Find = Omit<Input<'get /api/v1/workspace/{id}/customer-billings'>, 'id'>;

/** Whether a record goes on without credits, and how far. */
export const overageFields = [
  { name: 'allowOverages', label: 'May go on when the credits are used up', as: 'check' },
  { name: 'spendCap', label: 'Spend cap', as: 'credits', hint: 'The most that may be used. Empty: no cap.' },
] as const satisfies readonly FieldData[];

/** The billing records of the workspace: what each has left. */
export function Customers() {
  const { id, pathOf } = useWorkspace();
  const { route, query } = useLocation();
  const [find, setFind] = useState<Find>(query['customerId'] ? { customerId: query['customerId'] } : {});
  const hint = 'Your own id: keys with this meter draw on the record.';
  const make = (
    <Ask
      does="New"
      one="record"
      needs="billing:write"
      fields={[
        { name: 'externalMeterId', label: 'Meter', required: true, hint },
        { name: 'totalCredits', label: 'First credits', as: 'credits', placeholder: '0' },
        ...overageFields,
      ]}
      onSubmit={async (given) => {
        const { billing } = await call('post /api/v1/customer-billing', { workspaceId: id, ...given });
        route(pathOf(`customers/${billing.id}`));
      }}
    />
  );
  return (
    <Page title="Customers" action={make}>
      <Form
        submit="Find"
        look="row"
        fields={[
          { name: 'externalMeterId', label: 'Meter' },
          { name: 'customerId', label: 'Customer', value: find.customerId },
          { name: 'availableBelow', label: 'Available below', as: 'credits' },
        ]}
        onSubmit={async (given) => setFind(given)}
      />
      <List
        label="Billing records"
        of="get /api/v1/workspace/{id}/customer-billings"
        input={{ id, limit: 200, ...find }}
        columns={[
          { title: 'Meter', width: '30%', text: 'externalMeterId', link: (one) => `customers/${one.id}` },
          { title: 'Credits', width: '14%', cell: (one) => <CreditsBar of={one} /> },
          { title: 'Available', amount: 'availableCredits' },
          { title: 'Used', amount: 'usedCredits' },
          { title: 'Held', amount: 'heldCredits' },
          { title: 'State', width: '8rem', state: billingState },
        ]}
        empty={
          Object.values(find).some(Boolean)
            ? 'No record fits. A meter is looked for as a whole, in its own case.'
            : 'No record yet. A record holds the credits of one meter: make one, and give its meter to the keys that shall draw on it.'
        }
      />
      <p class="muted">Amounts here are at most a minute old; a record's own page has those of now.</p>
    </Page>
  );
}
