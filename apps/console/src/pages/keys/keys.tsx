import { useEffect, useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { useWorkspace } from '../../data/hooks.ts';
import { Ask, secretOf } from '../../parts/dialog.tsx';
import { Field } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { State } from '../../parts/text.tsx';

export type ApiKey = Output<'get /api/v1/workspace/{id}/api-key/{akid}'>['apiKey'];

const SEARCH_AFTER_MS = 250;

/** The keys of the workspace: find one, or make one. */
export function Keys() {
  const { id, workspace, pathOf } = useWorkspace();
  const [typed, setTyped] = useState('');
  const search = useSettled(typed);
  const expiry = 'In your time zone. Empty: as the workspace says, else never.';
  const make = (
    <Ask
      look="main"
      title="New key"
      submit="Create key"
      needs="key:write"
      fields={[
        { name: 'name', label: 'Name', required: true, maxLength: 128 },
        { name: 'customerId', label: 'Customer', hint: "Your own id of the customer, if the key is one's." },
        { name: 'externalMeterId', label: 'Meter', hint: 'Ties the key to the credits of the same meter.' },
        {
          name: 'prefix',
          label: 'Prefix',
          placeholder: workspace.defaultKeyPrefix ?? 'key',
          hint: 'What the secret begins with.',
        },
        { name: 'expiresAt', label: 'Expires', as: 'moment', hint: expiry },
      ]}
      onSubmit={(given) => call('post /api/v1/api-key', { workspaceId: id, ...given })}
      shows={({ apiKey }) => secretOf('The new key', 'Secret of the key', apiKey.key)}
    />
  );
  return (
    <Page title="Keys" action={make}>
      <Field
        label="Find keys"
        name="search"
        as="search"
        placeholder="name, customer or part of the key"
        value={typed}
        onText={setTyped}
      />
      <List
        label="Keys"
        of="get /api/v1/workspace/{id}/api-keys"
        input={{ id, limit: 200, deleted: false, ...(search && { search }) }}
        columns={[
          {
            title: 'Name',
            width: '32%',
            isMain: true,
            below: 'maskedKey',
            text: 'name',
            link: (key) => pathOf(`keys/${key.id}`),
          },
          { title: 'Key', code: 'maskedKey', isExtra: true },
          { title: 'Customer', text: 'customerId', isExtra: true },
          { title: 'State', width: '7rem', cell: stateOf },
          { title: 'Last used', time: 'lastUsedAt', isExtra: true },
        ]}
        empty={
          search
            ? 'No key has this in its name, its customer or its masked text. Deleted keys are not looked through.'
            : 'No key yet. Make one, give it to a customer, and verify it at each call of your API.'
        }
      />
    </Page>
  );
}

/** Whether a key may be used, and else why not. */
export function stateOf({
  deleted,
  enabled,
  expiresAt,
}: Pick<ApiKey, 'enabled' | 'expiresAt'> & { deleted?: boolean }) {
  if (deleted) return <State kind="bad">Deleted</State>;
  if (!enabled) return <State kind="bad">Disabled</State>;
  if (expiresAt !== undefined && expiresAt <= Date.now()) return <State kind="bad">Expired</State>;
  return <State kind="good">Enabled</State>;
}

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text.trim()), SEARCH_AFTER_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
