import { useEffect, useState } from 'preact/hooks';
import { call, type Output } from '../../data/call.ts';
import { usePages } from '../../data/hooks.ts';
import { Dialog, Form } from '../../parts/form.tsx';
import { PagedTable, type Column } from '../../parts/table.tsx';
import { Facts, State, Time } from '../../parts/text.tsx';
import type { Webhook } from './webhooks.tsx';

type Delivery = Output<'get /api/v1/webhook/{wid}/deliveries'>['deliveries'][number];
type Props = {
  of: Webhook;
  mayChange: boolean;
  /** How many tests were sent: one more is looked for. */
  tests: number;
  /** A try may have changed the webhook's state. */
  onTried(): void;
};

// As long as a try may take.
const SOON_MS = 60_000;
const AGAIN_MS = 1_500;

/** What a webhook was told in the last 30 days, each try of it, and telling it again. */
export function Deliveries({ of: { id: wid, enabled }, mayChange, tests, onTried }: Props) {
  const [shown, setShown] = useState<Delivery>();
  const { reload, ...pages } = usePages(
    async (cursor, signal) => {
      const input = { wid, limit: 50, ...(cursor && { cursor }) };
      const page = await call('get /api/v1/webhook/{wid}/deliveries', input, signal);
      return { items: page.deliveries, nextCursor: page.nextCursor };
    },
    [wid, tests],
  );
  const { items } = pages;
  // What is tried any moment shows by itself.
  useEffect(() => {
    if (items.length > 0) onTried();
    // What waits for a webhook that is disabled is not tried.
    if (!enabled || !items.some(isDue)) return undefined;
    const again = () => {
      if (document.hidden) document.addEventListener('visibilitychange', again, { once: true });
      else reload();
    };
    const timer = setTimeout(again, AGAIN_MS);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', again);
    };
  }, [items, enabled]);
  const columns: readonly Column<Delivery>[] = [
    {
      title: 'Event',
      isMain: true,
      cell: (one) => (
        <button type="button" class="link" onClick={() => setShown(one)}>
          {one.type}
        </button>
      ),
    },
    { title: 'Told', width: '12.5rem', cell: ({ createdAt }) => <Time at={createdAt} />, isExtra: true },
    { title: 'State', width: '8rem', cell: (one) => <DeliveryState of={one} /> },
    { title: 'Tries', width: '5rem', cell: ({ tries }) => tries.length, isNumber: true, isExtra: true },
    { title: 'Last answer', cell: ({ tries }) => <Answer of={tries.at(-1)} />, isExtra: true },
  ];
  return (
    <section>
      <header class="page">
        <h2>Deliveries</h2>
        <button type="button" class="outline" onClick={reload}>
          Look again
        </button>
      </header>
      <PagedTable
        label="Deliveries"
        columns={columns}
        pages={pages}
        keyOf={(one) => one.id}
        empty="Nothing was told in the last 30 days. Send a test to see whether your receiver gets it."
      />
      {shown && (
        <Dialog title={shown.type} onClose={() => setShown(undefined)}>
          <Details of={shown} />
          {mayChange && (
            <Form
              submit="Deliver again"
              onSubmit={async () => {
                await call('post /api/v1/webhook/{wid}/delivery/{did}/redeliver', { wid, did: shown.id });
                setShown(undefined);
                reload();
              }}
            >
              <p>It goes out under the same webhook-id, also if it was delivered.</p>
            </Form>
          )}
        </Dialog>
      )}
    </section>
  );
}

function isDue({ state, nextTryAt }: Delivery): boolean {
  return state === 'WAITING' && nextTryAt !== undefined && Date.parse(nextTryAt) < Date.now() + SOON_MS;
}

function DeliveryState({ of: { state } }: { of: Delivery }) {
  if (state === 'DELIVERED') return <State kind="good">Delivered</State>;
  return state === 'FAILED' ? <State kind="bad">Failed</State> : <State kind="idle">Waiting</State>;
}

function Answer({ of: one }: { of: Delivery['tries'][number] | undefined }) {
  if (!one) return <span class="muted">not tried yet</span>;
  return <span title={one.error}>{one.error ?? one.status}</span>;
}

function Details({ of: { eventId, createdAt, nextTryAt, tries } }: { of: Delivery }) {
  return (
    <>
      <Facts
        of={[
          ['webhook-id', <code>{eventId}</code>],
          ['Told', <Time at={createdAt} />],
          ...(nextTryAt === undefined ? [] : ([['Tried next', <Time at={nextTryAt} />]] as const)),
        ]}
      />
      <h3>Tries</h3>
      {tries.length === 0 && <p class="muted">None yet.</p>}
      <ol class="tries">
        {tries.map((one) => (
          <li key={one.at}>
            <Answer of={one} />, <Time at={one.at} />, after {one.durationMs} ms
            {one.answer && (
              <pre tabIndex={0} aria-label="Answer">
                {one.answer}
              </pre>
            )}
          </li>
        ))}
      </ol>
    </>
  );
}
