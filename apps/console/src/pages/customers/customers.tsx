import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from '../../data/call.ts';
import { usePages } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Form, type FieldData, type Given } from '../../parts/form.tsx';
import { Page, usePath } from '../../parts/page.tsx';
import { PagedTable, type Column } from '../../parts/table.tsx';
import { BillingState, CreditsBar, type Billing } from './credits.tsx';

const findFields = [
  { name: 'externalMeterId', label: 'Meter' },
  { name: 'customerId', label: 'Customer' },
  { name: 'availableBelow', label: 'Available below', as: 'credits' },
] as const satisfies readonly FieldData[];
/** Whether a record goes on without credits, and how far. */
export const overageFields = [
  { name: 'allowOverages', label: 'May go on when the credits are used up', as: 'check' },
  { name: 'spendCap', label: 'Spend cap', as: 'credits', hint: 'The most that may be used. Empty: no cap.' },
] as const satisfies readonly FieldData[];

/** The billing records of the workspace: what each has left. */
export function Customers() {
  const mayWrite = useMay()('billing:write');
  const { id } = useWorkspace();
  const pathOf = usePath();
  const [find, setFind] = useState<Given<typeof findFields>>({});
  const pages = usePages('get /api/v1/workspace/{id}/customer-billings', { id, limit: 200, ...find });
  const columns: readonly Column<Billing>[] = [
    {
      title: 'Meter',
      width: '30%',
      isMain: true,
      text: 'externalMeterId',
      link: (one) => pathOf(`customers/${one.id}`),
    },
    { title: 'Credits', width: '14%', cell: (one) => <CreditsBar of={one} />, isExtra: true },
    { title: 'Available', amount: 'availableCredits' },
    { title: 'Used', amount: 'usedCredits', isExtra: true },
    { title: 'Held', amount: 'heldCredits', isExtra: true },
    { title: 'State', width: '8rem', cell: (one) => <BillingState of={one} /> },
  ];
  return (
    <Page title="Customers" action={mayWrite && <NewRecord />}>
      <Form submit="Find" look="row" fields={findFields} onSubmit={async (given) => setFind(given)} />
      <PagedTable
        label="Billing records"
        columns={columns}
        pages={pages}
        empty={
          Object.keys(find).length > 0
            ? 'No record fits. A meter is looked for as a whole, in its own case.'
            : 'No record yet. A record holds the credits of one meter: make one, and give its meter to the keys that shall draw on it.'
        }
      />
      {pages.items.length > 0 && (
        <p class="muted">Amounts here are at most a minute old; a record's own page has those of now.</p>
      )}
    </Page>
  );
}

function NewRecord() {
  const { id: workspaceId } = useWorkspace();
  const { route } = useLocation();
  const pathOf = usePath();
  const hint = 'Your own id: keys with this meter draw on the record.';
  return (
    <Ask
      text="New record"
      look="main"
      title="New billing record"
      submit="Create record"
      fields={[
        { name: 'externalMeterId', label: 'Meter', required: true, hint },
        { name: 'totalCredits', label: 'First credits', as: 'credits', placeholder: '0' },
        ...overageFields,
      ]}
      onSubmit={async (given) => {
        const { billing } = await call('post /api/v1/customer-billing', { workspaceId, ...given });
        route(pathOf(`customers/${billing.id}`));
      }}
    />
  );
}
