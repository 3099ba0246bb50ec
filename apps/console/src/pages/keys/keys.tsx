import { useEffect, useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { usePages } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Dialog, Field, Form, momentOf } from '../../parts/form.tsx';
import { Page, usePath } from '../../parts/page.tsx';
import { PagedTable, type Column } from '../../parts/table.tsx';
import { Secret, State, Time } from '../../parts/text.tsx';

export type ApiKey = Output<'get /api/v1/workspace/{id}/api-key/{akid}'>['apiKey'];

const SEARCH_AFTER_MS = 250;

/** The keys of the workspace: find one, or make one. */
export function Keys() {
  const may = useMay();
  const { id } = useWorkspace();
  const pathOf = usePath();
  const [isMaking, setMaking] = useState(false);
  const [typed, setTyped] = useState('');
  const search = useSettled(typed);
  const { reload, ...pages } = usePages(
    async (cursor, signal) => {
      const input = { id, limit: 200, deleted: false, ...(search && { search }), ...(cursor && { cursor }) };
      const page = await call('get /api/v1/workspace/{id}/api-keys', input, signal);
      return { items: page.apiKeys, nextCursor: page.nextCursor };
    },
    [id, search],
  );
  const columns: readonly Column<ApiKey>[] = [
    {
      title: 'Name',
      width: '32%',
      isMain: true,
      below: ({ maskedKey }) => maskedKey,
      cell: (key) => (
        <a href={pathOf(`keys/${key.id}`)} title={key.name}>
          {key.name}
        </a>
      ),
    },
    { title: 'Key', cell: ({ maskedKey }) => <code>{maskedKey}</code>, isExtra: true },
    { title: 'Customer', cell: ({ customerId }) => <span title={customerId}>{customerId}</span>, isExtra: true },
    { title: 'State', width: '7rem', cell: (key) => <KeyState of={key} /> },
    { title: 'Last used', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} />, isExtra: true },
  ];
  return (
    <Page
      title="Keys"
      action={
        may('key:write') && (
          <button type="button" onClick={() => setMaking(true)}>
            New key
          </button>
        )
      }
    >
      <Field
        label="Find keys"
        name="search"
        type="search"
        placeholder="name, customer or part of the key"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      <PagedTable
        label="Keys"
        columns={columns}
        pages={pages}
        keyOf={(key) => key.id}
        empty={
          search
            ? 'No key has this in its name, its customer or its masked text. Deleted keys are not looked through.'
            : 'No key yet. Make one, give it to a customer, and verify it at each call of your API.'
        }
      />
      {isMaking && <NewKey onClose={() => setMaking(false)} onMade={reload} />}
    </Page>
  );
}

/** Whether a key may be used, and else why not. */
export function KeyState({
  of: { deleted, enabled, expiresAt },
}: {
  of: Pick<ApiKey, 'enabled' | 'expiresAt'> & { deleted?: boolean };
}) {
  if (deleted) return <State kind="bad">Deleted</State>;
  if (!enabled) return <State kind="bad">Disabled</State>;
  if (expiresAt !== undefined && expiresAt <= Date.now()) return <State kind="bad">Expired</State>;
  return <State kind="good">Enabled</State>;
}

function NewKey({ onClose, onMade }: { onClose(): void; onMade(): void }) {
  const { id, defaultKeyPrefix } = useWorkspace();
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <Dialog title="The new key" onClose={onClose}>
        <Secret label="Secret of the key" text={secret} />
      </Dialog>
    );
  }
  return (
    <Dialog title="New key" onClose={onClose}>
      <Form
        submit="Create key"
        onSubmit={async (value) => {
          const expiresAt = momentOf(value('expiresAt'));
          const { apiKey } = await call('post /api/v1/api-key', {
            name: value('name'),
            workspaceId: id,
            ...(value('customerId') && { customerId: value('customerId') }),
            ...(value('externalMeterId') && { externalMeterId: value('externalMeterId') }),
            ...(value('prefix') && { prefix: value('prefix') }),
            ...(expiresAt !== undefined && { expiresAt }),
          });
          setSecret(apiKey.key);
          onMade();
        }}
      >
        <Field label="Name" name="name" required maxLength={128} />
        <Field label="Customer" name="customerId" hint="Your own id of the customer, if the key is one's." />
        <Field label="Meter" name="externalMeterId" hint="Ties the key to the credits of the same meter." />
        <Field
          label="Prefix"
          name="prefix"
          placeholder={defaultKeyPrefix ?? 'key'}
          hint="What the secret begins with."
        />
        <Field
          label="Expires"
          name="expiresAt"
          type="datetime-local"
          hint="In your time zone. Empty: as the workspace says, else never."
        />
      </Form>
    </Dialog>
  );
}

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text.trim()), SEARCH_AFTER_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
