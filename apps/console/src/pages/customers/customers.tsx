import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from '../../data/call.ts';
import { usePages } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Check, Dialog, Field, Form } from '../../parts/form.tsx';
import { Page, usePath } from '../../parts/page.tsx';
import { PagedTable, type Column } from '../../parts/table.tsx';
import { Amount } from '../../parts/text.tsx';
import { BillingState, CreditsBar, type Billing } from './credits.tsx';

type Find = { externalMeterId?: string; customerId?: string; availableBelow?: string };

/** The billing records of the workspace: what each has left. */
export function Customers() {
  const may = useMay();
  const { id } = useWorkspace();
  const pathOf = usePath();
  const [find, setFind] = useState<Find>({});
  const [isMaking, setMaking] = useState(false);
  const pages = usePages(
    async (cursor, signal) => {
      const input = { id, limit: 200, ...find, ...(cursor && { cursor }) };
      const page = await call('get /api/v1/workspace/{id}/customer-billings', input, signal);
      return { items: page.billings, nextCursor: page.nextCursor };
    },
    [id, find],
  );
  const columns: readonly Column<Billing>[] = [
    {
      title: 'Meter',
      width: '30%',
      isMain: true,
      cell: (one) => (
        <a href={pathOf(`customers/${one.id}`)} title={one.externalMeterId}>
          {one.externalMeterId}
        </a>
      ),
    },
    { title: 'Credits', width: '14%', cell: (one) => <CreditsBar of={one} />, isExtra: true },
    { title: 'Available', cell: (one) => <Amount of={one.availableCredits} />, isNumber: true },
    { title: 'Used', cell: (one) => <Amount of={one.usedCredits} />, isNumber: true, isExtra: true },
    { title: 'Held', cell: (one) => <Amount of={one.heldCredits} />, isNumber: true, isExtra: true },
    { title: 'State', width: '8rem', cell: (one) => <BillingState of={one} /> },
  ];
  return (
    <Page
      title="Customers"
      action={
        may('billing:write') && (
          <button type="button" onClick={() => setMaking(true)}>
            New record
          </button>
        )
      }
    >
      <Finder onFind={setFind} />
      <PagedTable
        label="Billing records"
        columns={columns}
        pages={pages}
        keyOf={(one) => one.id}
        empty={
          Object.keys(find).length > 0
            ? 'No record fits. A meter is looked for as a whole, in its own case.'
            : 'No record yet. A record holds the credits of one meter: make one, and give its meter to the keys that shall draw on it.'
        }
      />
      {pages.items.length > 0 && (
        <p class="muted">Amounts here are at most a minute old; a record's own page has those of now.</p>
      )}
      {isMaking && <NewBilling onClose={() => setMaking(false)} />}
    </Page>
  );
}

function Finder({ onFind }: { onFind(find: Find): void }) {
  return (
    <Form
      submit="Find"
      isRow
      onSubmit={async (value) => {
        const given = (['externalMeterId', 'customerId', 'availableBelow'] as const).filter(
          (name) => value(name) !== '',
        );
        onFind(Object.fromEntries(given.map((name) => [name, value(name)])));
      }}
    >
      <div class="finder">
        <Field label="Meter" name="externalMeterId" />
        <Field label="Customer" name="customerId" />
        <Field label="Available below" name="availableBelow" inputMode="decimal" />
      </div>
    </Form>
  );
}

function NewBilling({ onClose }: { onClose(): void }) {
  const { id } = useWorkspace();
  const { route } = useLocation();
  const pathOf = usePath();
  return (
    <Dialog title="New billing record" onClose={onClose}>
      <Form
        submit="Create record"
        onSubmit={async (value, form) => {
          const { billing } = await call('post /api/v1/customer-billing', {
            workspaceId: id,
            externalMeterId: value('externalMeterId'),
            ...(value('totalCredits') && { totalCredits: value('totalCredits') }),
            allowOverages: form.has('allowOverages'),
            ...(value('spendCap') && { spendCap: value('spendCap') }),
          });
          route(pathOf(`customers/${billing.id}`));
        }}
      >
        <Field
          label="Meter"
          name="externalMeterId"
          required
          hint="Your own id: keys with this meter draw on the record."
        />
        <Field label="First credits" name="totalCredits" inputMode="decimal" placeholder="0" />
        <Check label="May go on when the credits are used up" name="allowOverages" />
        <Field label="Spend cap" name="spendCap" inputMode="decimal" hint="The most that may be used. Empty: no cap." />
      </Form>
    </Dialog>
  );
}
