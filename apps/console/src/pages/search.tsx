import { useContext, useEffect, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { readSome, useMay, useRead, useWorkspace } from '../data/hooks.ts';
import { masked, searchable } from '../data/searchable.ts';
import { Dialog, DialogContext } from '../parts/dialog.tsx';
import { Field, Form } from '../parts/form.tsx';
import { Empty, Loaded, PageLink } from '../parts/text.tsx';

type Named = { path: string; title: string };
type Found = { found: { kind: string; text: string; to: string }[]; isWhole: boolean };

const SHOWN = 8;
// Of a search that finds little; the lists of keys and customers go further.
const MOST_PAGES = 2;
const MOST_ROWS = 200;
const WAIT_MS = 300;
const WHAT = 'a key (all of it, too), a customer, an id, a page';
const byId: Record<string, string> = { key: 'keys', bill: 'customers', hook: 'webhooks', dest: 'meters' };
const nothing = { items: [], isWhole: true };

/** One search for everything: keys, customers and pages. Enter opens the first that is found. */
export function Search({ pages }: { pages: readonly Named[] }) {
  const may = useMay();
  const show = useContext(DialogContext);
  const { id, pathOf } = useWorkspace();
  const { route } = useLocation();
  const [typed, setTyped] = useState('');
  const [asked, setAsked] = useState('');
  // Whoever says so looks for what could be a secret.
  const [isAsItIs, setAsItIs] = useState(false);
  useEffect(() => {
    setAsItIs(false);
    const timer = setTimeout(() => setAsked(typed.trim()), WAIT_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const textOf = (given: string) => (isAsItIs ? given : searchable(given));
  const find = async (text: string, signal?: AbortSignal): Promise<Found> => {
    const search = text.toLowerCase();
    const named = pages.filter(({ title }) => title.toLowerCase().includes(search));
    const ofPages = named.map(({ title, path }) => ({ kind: 'page', text: title, to: path }));
    if (search === '') return { found: ofPages, isWhole: true };
    const [, kind] = /^(key|bill|hook|dest)_[0-9a-z]{26}$/.exec(search) ?? [];
    if (kind) return { found: [{ kind: 'by its id', text, to: `${byId[kind]}/${search}` }], isWhole: true };
    const few = { most: SHOWN, pages: MOST_PAGES, signal };
    const keysOf = async (wanted: { search: string } | { customerId: string }) =>
      may('key:read')
        ? readSome('get /api/v1/workspace/{id}/api-keys', { id, limit: MOST_ROWS, deleted: false, ...wanted }, few)
        : nothing;
    const customersOf = async (wanted: { search: string } | { externalMeterId: string }) =>
      may('billing:read')
        ? readSome('get /api/v1/workspace/{id}/customer-billings', { id, limit: MOST_ROWS, ...wanted }, few)
        : nothing;
    const [customers, keys] = await Promise.all([
      // Exactly so first: however many there are, an index leads to it.
      Promise.all([customersOf({ externalMeterId: text }), customersOf({ search })]),
      Promise.all([keysOf({ customerId: text }), keysOf({ search })]),
    ]);
    const found = [
      ...customers.flatMap(({ items }) =>
        items.map((one) => ({ kind: 'customer', text: one.externalMeterId, to: `customers/${one.id}` })),
      ),
      ...keys.flatMap(({ items }) =>
        items.map((one) => ({ kind: `key ${one.maskedKey}`, text: one.name, to: `keys/${one.id}` })),
      ),
      ...ofPages,
    ];
    const once = [...new Map(found.map((one) => [one.to, one])).values()];
    return { found: once, isWhole: customers[1].isWhole && keys[1].isWhole };
  };
  const text = textOf(asked);
  const read = useRead<Found>((_, signal) => find(text, signal), text);
  // What is typed by now may not have been looked for yet.
  const open = async () => {
    const [first] = (await find(textOf(typed.trim()))).found;
    if (!first) return;
    route(pathOf(first.to));
    show(undefined);
  };
  const further = (page: string) => <PageLink to={`${page}?search=${encodeURIComponent(text)}`}>{page}</PageLink>;
  return (
    <Dialog title="Search">
      <Form submit="Open the first" onSubmit={open}>
        <Field label="Look for" name="text" as="search" placeholder={WHAT} value={typed} onText={setTyped} />
      </Form>
      {text !== asked && masked(asked) === asked && (
        <p>
          It may be a secret, so only its ends are looked for.{' '}
          <button type="button" class="outline small" onClick={() => setAsItIs(true)}>
            It is an id: look for all of it
          </button>
        </p>
      )}
      <div role="status">
        <Loaded of={read}>
          {({ found, isWhole }) => (
            <>
              {found.length === 0 && isWhole && <Empty>Nothing fits. A part of a name or of a key is enough.</Empty>}
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
              {!isWhole && (
                <p class="muted" onClick={() => show(undefined)}>
                  Not all were looked through: there are more than this search reads. Look further among the{' '}
                  {further('customers')} or the {further('keys')}.
                </p>
              )}
            </>
          )}
        </Loaded>
      </div>
    </Dialog>
  );
}
