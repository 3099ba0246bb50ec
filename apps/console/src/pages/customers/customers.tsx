import { useLocation } from 'preact-iso/router';
import { call } from '../../data/call.ts';
import { useAsked, useWorkspace } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Finder } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { CreditsBar } from './credits.tsx';
import { billingState } from './billing-state.ts';
import { plansIn, spendingOf } from './plans.tsx';

/** The customers of the workspace: what each has left. */
export function Customers() {
  const { id, pathOf } = useWorkspace();
  const { route } = useLocation();
  const [{ search, availableBelow }] = useAsked();
  const hint = 'Your own name or id of the customer. Keys that have it draw on its credits.';
  const make = (
    <Ask
      does="New"
      one="customer"
      needs="billing:write"
      reads={() => plansIn(id)}
      fields={(plans) => [
        { name: 'externalMeterId', label: 'Customer', required: true, hint },
        { name: 'planId', label: 'Plan', options: plans },
        { name: 'totalCredits', label: 'First credits', as: 'credits', placeholder: '0' },
        ...spendingOf({}),
      ]}
      onSubmit={async ({ planId, ...given }) => {
        // What it says itself goes before its plan.
        const below = given.allowOverages || undefined;
        const asked = { workspaceId: id, ...given, allowOverages: below, planId: planId || undefined };
        const { billing } = await call('post /api/v1/customer-billing', asked);
        route(pathOf(`customers/${billing.id}`));
      }}
    />
  );
  return (
    <Page title="Customers" action={make}>
      <Finder
        fields={[
          { name: 'search', label: 'Find customers', placeholder: 'a part of the name' },
          { name: 'availableBelow', label: 'With fewer credits than', as: 'credits' },
        ]}
      />
      <List
        label="Customers"
        of="get /api/v1/workspace/{id}/customer-billings"
        input={{ id, limit: 200, search, availableBelow }}
        columns={[
          { title: 'Customer', width: '30%', text: 'externalMeterId', link: (one) => `customers/${one.id}` },
          { title: 'Credits', width: '14%', cell: (one) => <CreditsBar of={one} /> },
          { title: 'Available', amount: 'availableCredits' },
          { title: 'Used', amount: 'usedCredits' },
          { title: 'Held', amount: 'heldCredits' },
          { title: 'State', width: '8.5rem', state: billingState },
        ]}
        empty={
          search || availableBelow
            ? 'No customer fits. Look for a part of the name, or for more credits.'
            : 'No customer yet. Make one with the credits that its keys draw on, then give it a key.'
        }
      />
      <p class="muted">Amounts here are at most a minute old; a customer's own page has those of now.</p>
    </Page>
  );
}
