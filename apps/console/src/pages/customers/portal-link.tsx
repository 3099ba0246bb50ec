import { useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Check, Choice, Dialog, Field, Form } from '../../parts/form.tsx';
import { ProblemNote, Secret, Time } from '../../parts/text.tsx';
import type { Billing } from './credits.tsx';

type Link = Output<'post /api/v1/link-token'>['linkToken'];
type Props = { of: Billing; onClose(): void };

const MOST_KEYS = 200;
const lives = [
  ['900', '15 minutes'],
  ['3600', 'an hour'],
  ['86400', 'a day'],
] as const;

/** Makes a link by which the record's customer sees their own keys, usage and balance. */
export function PortalLink({ of, onClose }: Props) {
  const [link, setLink] = useState<Link>();
  return link ? <Made link={link} onClose={onClose} /> : <NewLink of={of} onClose={onClose} onMade={setLink} />;
}

function NewLink({ of: { id: billingId, externalMeterId }, onClose, onMade }: Props & { onMade(link: Link): void }) {
  const may = useMay();
  const { id: workspaceId } = useWorkspace();
  const { value: customers, problem } = useRead(
    async (signal) => {
      const input = { id: workspaceId, externalMeterId, limit: MOST_KEYS };
      const { apiKeys } = await call('get /api/v1/workspace/{id}/api-keys', input, signal);
      return [...new Set(apiKeys.flatMap(({ customerId }) => customerId ?? []))];
    },
    [billingId],
  );
  return (
    <Dialog title="New portal link" onClose={onClose}>
      <ProblemNote problem={problem} />
      {!customers && !problem && <p aria-busy="true">Loading…</p>}
      {customers && (
        <Form
          submit="Make the link"
          onSubmit={async (value, form) => {
            const { linkToken } = await call('post /api/v1/link-token', {
              workspaceId,
              billingId,
              customerId: value('customerId'),
              expiresIn: Number(value('expiresIn')),
              ...(form.has('rotate') && { permissions: ['rotate'] }),
            });
            onMade(linkToken);
          }}
        >
          <p>
            Until it ends, whoever opens it sees what is the customer's: their keys, their usage, and the balance of
            this record while all of its keys are theirs.
          </p>
          {customers.length > 1 ? (
            <Choice
              label="Customer"
              name="customerId"
              options={customers.map((one) => [one, one])}
              hint="The keys of this record are of several customers: the portal shows none of them its balance."
            />
          ) : (
            <Field
              label="Customer"
              name="customerId"
              required
              value={customers[0] ?? ''}
              hint={customers.length === 0 ? 'Your own id of the customer. No key of this record names one yet.' : ''}
            />
          )}
          <Choice label="Open for" name="expiresIn" options={lives} />
          {may('key:write') && <Check label="The customer may rotate their own keys" name="rotate" />}
        </Form>
      )}
    </Dialog>
  );
}

function Made({ link: { token, customerId, expiresAt }, onClose }: { link: Link; onClose(): void }) {
  return (
    <Dialog title="The new portal link" onClose={onClose}>
      <Secret label="Portal link" text={`${location.origin}/portal#${token}`} />
      <p>
        It opens the portal of <strong>{customerId}</strong> until <Time at={expiresAt} />.
      </p>
      <Form
        submit="Revoke the link"
        isMinor
        onSubmit={() => call('delete /api/v1/link-token/{token}', { token }).then(onClose)}
      >
        {null}
      </Form>
    </Dialog>
  );
}
