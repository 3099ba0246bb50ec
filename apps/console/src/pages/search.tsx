import { useContext, useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { readItems, useMay, useRead, useWorkspace } from '../data/hooks.ts';
import { searchable } from '../data/searchable.ts';
import { Dialog, DialogContext } from '../parts/dialog.tsx';
import { Field, Form } from '../parts/form.tsx';
import { Empty, Loaded } from '../parts/text.tsx';

type Found = { kind: string; text: string; to: string };
type Named = { path: string; title: string };

const SHOWN = 8;
// Of a search that finds little; the lists of keys and customers go further.
const MOST_PAGES = 5;
const WAIT_MS = 150;
const WHAT = 'a key (all of it, too), a customer, an id, a page';

/** One search for everything: keys, customers and pages. Enter opens the first that is found. */
export function Search({ pages }: { pages: readonly Named[] }) {
  const may = useMay();
  const show = useContext(DialogContext);
  const { id, pathOf } = useWorkspace();
  const { route } = useLocation();
  const [typed, setTyped] = useState('');
  const [text, setText] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setText(searchable(typed.trim())), WAIT_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const find = async (text: string): Promise<Found[]> => {
    const search = text.toLowerCase();
    const named = pages.filter(({ title }) => title.toLowerCase().includes(search));
    const ofPages = named.map(({ title, path }) => ({ kind: 'page', text: title, to: path }));
    if (search === '') return ofPages;
    const [, kind] = /^(key|bill|hook)_[0-9a-z]{26}$/.exec(search) ?? [];
    if (kind !== undefined) return [{ kind: 'by its id', text, to: `${byId[kind]}/${text}` }];
    const few = { most: SHOWN, pages: MOST_PAGES };
    const input = { id, search, limit: 200 };
    const [keys, customers] = await Promise.all([
      may('key:read') ? readItems('get /api/v1/workspace/{id}/api-keys', { ...input, deleted: false }, few) : [],
      may('billing:read') ? readItems('get /api/v1/workspace/{id}/customer-billings', input, few) : [],
    ]);
    return [
      ...customers.map((one) => ({ kind: 'customer', text: one.externalMeterId, to: `customers/${one.id}` })),
      ...keys.map((one) => ({ kind: `key ${one.maskedKey}`, text: one.name, to: `keys/${one.id}` })),
      ...ofPages,
    ];
  };
  const read = useRead(() => find(text), text);
  // What is typed by now may not have been looked for yet.
  const open = async () => {
    const [first] = await find(searchable(typed.trim()));
    if (!first) return;
    route(pathOf(first.to));
    show(undefined);
  };
  return (
    <Dialog title="Search">
      <Form submit="Open the first" onSubmit={open}>
        <Field label="Look for" name="text" as="search" placeholder={WHAT} value={typed} onText={setTyped} />
      </Form>
      <div role="status">
        <Loaded of={read}>
          {(found) =>
            found.length === 0 ? (
              <Empty>Nothing fits. A part of a name, of a customer or of a key is enough.</Empty>
            ) : (
              <ul class="found">
                {found.map(({ kind, text, to }) => (
                  <li key={to}>
                    <a href={pathOf(to)} onClick={() => show(undefined)}>
                      {text}
                    </a>{' '}
                    <small class="muted">{kind}</small>
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
      </div>
    </Dialog>
  );
}

const byId: Record<string, string> = { key: 'keys', bill: 'customers', hook: 'webhooks' };
