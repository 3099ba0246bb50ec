import { useEffect, useMemo } from 'preact/hooks';
import { callAll, wrong } from '../../data/call.ts';
import { MOST_ITEMS, readSome, useAsked, usePages, useWorkspace } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { csvOf, Finder, SaveButton } from '../../parts/form.tsx';
import { Page } from '../../parts/page.tsx';
import { PagedTable } from '../../parts/table.tsx';
import { keyColumns, stateOf, type Listed } from './api-key.ts';
import { useCallsOfKeys } from '../calls.tsx';
import { NewKey } from './new-key.tsx';

const UNUSED_MS = 90 * 86_400_000;
const some = { active: 'active ones', off: 'disabled and expired ones', unused: 'those unused for 90 days' };
const shows = { '': 'all keys', ...some };

const ids = ['id', 'name', 'maskedKey', 'externalMeterId', 'customerId'] as const;
const csvFields = [...ids, 'enabled', 'expiresAt', 'createdAt', 'lastUsedAt'] as const;

function isShown(key: Listed, show: string | undefined): boolean {
  const isActive = stateOf(key)[0] === 'good';
  // One that was never used is unused since it was created.
  if (show === 'unused') return isActive && Date.parse(key.lastUsedAt ?? key.createdAt) < Date.now() - UNUSED_MS;
  return show === 'active' ? isActive : show === 'off' ? !isActive : true;
}

/** The keys of the workspace: find one, make one, or disable those that nobody uses. */
export function Keys() {
  const { id } = useWorkspace();
  const [{ search, show }] = useAsked();
  const input = useMemo(() => ({ id, limit: 200, deleted: false, search }), [id, search]);
  const pages = usePages('get /api/v1/workspace/{id}/api-keys', input, (one) => isShown(one, show), show);
  const { items } = pages;
  const calls = useCallsOfKeys();
  const callsColumn = { title: 'Calls, 24 h', width: '8.5rem', amount: ({ id }: Listed) => calls?.get(id) ?? 0 };
  const readCsv = async () => {
    const all = await readSome('get /api/v1/workspace/{id}/api-keys', input);
    if (!all.isWhole) throw wrong(`There are more than ${MOST_ITEMS} keys: look for a part of them.`);
    const rows = all.items.filter((one) => isShown(one, show)).map((one) => csvFields.map((field) => one[field]));
    return new Blob([csvOf([csvFields, ...rows])], { type: 'text/csv' });
  };
  const isUnused = show === 'unused';
  // All of them are disabled at once: they are read to the end first.
  useEffect(() => {
    if (isUnused && !pages.isWhole) pages.more();
  }, [isUnused, items]);
  const disable = () => {
    const changes = items.map(({ id: akid }) => ({ id, akid, enabled: false }));
    return callAll('patch /api/v1/workspace/{id}/api-key/{akid}', changes);
  };
  const actions = (
    <>
      {isUnused && pages.isWhole && items.length > 0 && (
        <Ask
          title={`Disable these ${items.length} keys`}
          submit="Disable them"
          look="outline danger"
          needs="key:write"
          onSubmit={disable}
          says="Nobody has used them for 90 days. Their calls are refused until you enable them again."
        />
      )}
      <SaveButton read={readCsv} file="keys.csv" text="Download CSV" />
      <NewKey />
    </>
  );
  return (
    <Page title="Keys" action={actions}>
      <Finder
        fields={[
          { name: 'search', label: 'Find keys', as: 'search', placeholder: 'name, customer or the key itself' },
          { name: 'show', label: 'Show', options: shows, value: '' },
        ]}
      />
      <PagedTable
        label="Keys"
        columns={calls ? [...keyColumns, callsColumn] : keyColumns}
        pages={pages}
        empty={
          search || show
            ? 'No key fits: none has this in its name, its customer or its masked text. Deleted keys are not looked through.'
            : 'No key yet. Make one, give it to a customer, and verify it at each call of your API.'
        }
      />
    </Page>
  );
}
