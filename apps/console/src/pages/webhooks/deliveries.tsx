import { useEffect } from 'preact/hooks';
import { call } from '../../data/call.ts';
import { usePages, type ItemOf } from '../../data/hooks.ts';
import { AskDialog, Dialog, Opens } from '../../parts/dialog.tsx';
import { ListSection } from '../../parts/page.tsx';
import type { Column } from '../../parts/table.tsx';
import { Facts, State, Time } from '../../parts/text.tsx';
import type { Webhook } from './webhooks.tsx';

type Delivery = ItemOf<'get /api/v1/webhook/{wid}/deliveries'>;
type Props = {
  of: Webhook;
  mayChange: boolean;
  /** A try may have changed the webhook's state. */
  onTried(): void;
};

// As long as a try may take.
const SOON_MS = 60_000;
const AGAIN_MS = 1_500;

/** What a webhook was told in the last 30 days, each try of it, and telling it again. */
export function Deliveries({ of: { id: wid, enabled }, mayChange, onTried }: Props) {
  const pages = usePages('get /api/v1/webhook/{wid}/deliveries', { wid, limit: 50 });
  const { items, reload } = pages;
  // What is tried any moment shows by itself.
  useEffect(() => {
    if (items.length > 0) onTried();
    // What waits for a webhook that is disabled is not tried.
    if (!enabled || !items.some(isDue)) return undefined;
    const timer = setTimeout(reload, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [items, enabled]);
  const redeliver = (did: string) => call('post /api/v1/webhook/{wid}/delivery/{did}/redeliver', { wid, did });
  const columns: readonly Column<Delivery>[] = [
    {
      title: 'Event',
      isMain: true,
      cell: (one) => (
        <Opens text={one.type} look="link">
          {mayChange ? (
            <AskDialog title={one.type} submit="Deliver again" onSubmit={() => redeliver(one.id)}>
              <Details of={one} />
              <p>It goes out under the same webhook-id, also if it was delivered.</p>
            </AskDialog>
          ) : (
            <Dialog title={one.type}>
              <Details of={one} />
            </Dialog>
          )}
        </Opens>
      ),
    },
    { title: 'Told', width: '12.5rem', time: 'createdAt', isExtra: true },
    { title: 'State', width: '8rem', cell: (one) => <DeliveryState of={one} /> },
    { title: 'Tries', width: '5rem', amount: ({ tries }) => tries.length, isExtra: true },
    { title: 'Last answer', cell: ({ tries }) => <Answer of={tries.at(-1)} />, isExtra: true },
  ];
  const again = (
    <button type="button" class="outline" onClick={reload}>
      Look again
    </button>
  );
  return (
    <ListSection
      title="Deliveries"
      action={again}
      columns={columns}
      pages={pages}
      empty="Nothing was told in the last 30 days. Send a test to see whether your receiver gets it."
    />
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
          ['Tried next', nextTryAt && <Time at={nextTryAt} />],
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
