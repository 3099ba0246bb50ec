import { useContext } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { useMay, useWorkspace } from '../../data/hooks.ts';
import { Ask, DialogContext } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Time } from '../../parts/text.tsx';
import type { Billing } from './billing-state.ts';

// What a link gives, which its maker must hold.
const linkNeeds = ['link:write', 'key:read', 'billing:read', 'usage:read'] as const;
const MOST_KEYS = 200;
const SAYS =
  "Until it ends, whoever opens it sees what is the customer's: their keys, their usage, and the balance while all keys of this customer name it.";

/** A button that makes a link by which the customer sees their own keys, usage and balance. */
export function PortalLink({ of: { id: billingId, externalMeterId } }: { of: Billing }) {
  const may = useMay();
  const { id: workspaceId } = useWorkspace();
  const several = 'These keys are of several customers: the portal shows none of them the balance.';
  const unnamed = 'Your own id of the customer. No key of it names one yet.';
  const customer = { name: 'customerId', label: 'Customer', required: true } as const;
  return (
    <Ask
      text="Portal link"
      title="New portal link"
      submit="Make the link"
      needs={linkNeeds.every(may) && 'link:write'}
      reads={async () => {
        const input = { id: workspaceId, externalMeterId, limit: MOST_KEYS };
        const { apiKeys } = await call('get /api/v1/workspace/{id}/api-keys', input);
        return [...new Set(apiKeys.flatMap(({ customerId }) => customerId ?? []))];
      }}
      fields={(customers) => [
        customers.length > 1
          ? { ...customer, options: customers, hint: several }
          : { ...customer, value: customers[0], hint: customers.length === 0 ? unnamed : undefined },
        { name: 'expiresIn', label: 'Open for', options: { 900: '15 minutes', 3600: 'an hour', 86400: 'a day' } },
        ...(may('key:write')
          ? ([{ name: 'rotate', label: 'The customer may rotate their own keys', as: 'check' }] as const)
          : []),
      ]}
      onSubmit={({ customerId, expiresIn, rotate }) => {
        const link = { workspaceId, billingId, customerId, expiresIn: Number(expiresIn) };
        return call('post /api/v1/link-token', { ...link, ...(rotate && { permissions: ['rotate'] }) });
      }}
      shows={({ linkToken }) => ({
        title: 'The new portal link',
        label: 'Portal link',
        text: `${location.origin}/portal#${linkToken.token}`,
        more: <Made {...linkToken} />,
      })}
      says={SAYS}
    />
  );
}

function Made({ token, customerId, expiresAt }: Output<'post /api/v1/link-token'>['linkToken']) {
  const show = useContext(DialogContext);
  const revoke = () => call('delete /api/v1/link-token/{token}', { token }).then(() => show(undefined));
  return (
    <>
      <p>
        It opens the portal of <strong>{customerId}</strong> until <Time at={expiresAt} />.{' '}
        <a href={`/portal#${token}`} target="_blank" rel="noreferrer">
          Open it
        </a>
      </p>
      <Form submit="Revoke the link" look="minor" onSubmit={revoke} />
    </>
  );
}
