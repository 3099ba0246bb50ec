import { useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { useWorkspace, type ItemOf } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { List, type Column } from '../../parts/table.tsx';
import type { Standing } from '../../parts/text.tsx';

export type ApiKey = Output<'get /api/v1/workspace/{id}/api-key/{akid}'>['apiKey'];

/** What lists of keys show. */
export const keyColumns: readonly Column<ItemOf<'get /api/v1/workspace/{id}/api-keys'>>[] = [
  { title: 'Name', width: '32%', text: 'name', link: ({ id }) => `keys/${id}` },
  { title: 'Key', code: 'maskedKey' },
  { title: 'Customer', text: 'customerId', link: ({ customerId = '' }) => customerPage(customerId) },
  { title: 'State', width: '7rem', state: stateOf },
  { title: 'Last used', time: 'lastUsedAt' },
];

/** Where the records of a customer stand. */
export function customerPage(customerId: string): string {
  return `customers?customerId=${encodeURIComponent(customerId)}`;
}

/** The keys of the workspace: find one, or make one. */
export function Keys() {
  const { id, workspace } = useWorkspace();
  const [search, setSearch] = useState<string>();
  const begins = { placeholder: workspace.defaultKeyPrefix ?? 'key', hint: 'What the secret begins with.' };
  const expiry = 'In your time zone. Empty: as the workspace says, else never.';
  const make = (
    <Ask
      does="New"
      one="key"
      needs="key:write"
      fields={[
        { name: 'name', label: 'Name', required: true, maxLength: 128 },
        { name: 'customerId', label: 'Customer', hint: "Your own id of the customer, if the key is one's." },
        { name: 'externalMeterId', label: 'Meter', hint: 'Ties the key to the credits of the same meter.' },
        { name: 'prefix', label: 'Prefix', ...begins },
        { name: 'expiresAt', label: 'Expires', as: 'moment', hint: expiry },
      ]}
      onSubmit={(given) => call('post /api/v1/api-key', { workspaceId: id, ...given })}
      shows={({ apiKey }) => ({ title: 'The new key', label: 'Secret of the key', text: apiKey.key })}
    />
  );
  const hint = 'name, customer or part of the key';
  return (
    <Page title="Keys" action={make}>
      <Form
        submit="Find"
        look="row"
        fields={[{ name: 'search', label: 'Find keys', as: 'search', placeholder: hint }]}
        onSubmit={async (given) => setSearch(given.search)}
      />
      <List
        label="Keys"
        of="get /api/v1/workspace/{id}/api-keys"
        input={{ id, limit: 200, deleted: false, search }}
        columns={keyColumns}
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
export function stateOf(key: Pick<ApiKey, 'enabled' | 'expiresAt'> & { deleted?: boolean }): Standing {
  if (key.deleted) return ['bad', 'Deleted'];
  return key.enabled ? stateUntil(key.expiresAt, 'Enabled') : ['bad', 'Disabled'];
}

/** Whether something is in force until its end, if it has one. */
export function stateUntil(expiresAt = Infinity, good: string): Standing {
  return expiresAt <= Date.now() ? ['bad', 'Expired'] : ['good', good];
}
