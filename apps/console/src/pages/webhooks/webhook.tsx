import { useEffect } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { useAnswer, useMay, usePages, useWorkspace, type ItemOf } from '../../data/hooks.ts';
import { Ask, AskDialog, Dialog, Opens, secretOf } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { PageOf, Section } from '../../parts/page.tsx';
import { PagedTable, Table, type Column } from '../../parts/table.tsx';
import { Amount, Facts, State, Time } from '../../parts/text.tsx';
import { eventField, WebhookState, WebhookTrouble, type Webhook as One } from './webhooks.tsx';

type Change = Omit<Input<'patch /api/v1/webhook/{wid}'>, 'wid'>;

/** One webhook, what it was told, and what can be done with it. */
export function Webhook() {
  const wid = useRoute().params['webhook'] ?? '';
  const read = useAnswer('get /api/v1/webhook/{wid}', { wid });
  return (
    <PageOf
      of={read}
      name="Webhook"
      show={({ webhook }) => ({
        title: webhook.description ?? new URL(webhook.url).host,
        action: <Actions of={webhook} />,
        children: (
          <>
            <Facts
              of={[
                [
                  'State',
                  <>
                    <WebhookState of={webhook} />
                    <div class="muted">
                      <WebhookTrouble of={webhook} />
                    </div>
                  </>,
                ],
                ['URL', webhook.url],
                ['Events', webhook.events.join(', ')],
                ['Of', webhook.workspaceId === undefined ? 'all workspaces of the team' : 'this workspace'],
                ['Missed, because too many waited', webhook.missedEvents > 0 && <Amount of={webhook.missedEvents} />],
                ['Made', <Time at={webhook.createdAt} />],
                ['Id', <code>{webhook.id}</code>],
              ]}
            />
            <Deliveries key={wid} of={webhook} onTried={read.reload} />
          </>
        ),
      })}
    />
  );
}

function Actions({ of: webhook }: { of: One }) {
  const { route } = useLocation();
  const { pathOf } = useWorkspace();
  const { id: wid, enabled, url } = webhook;
  const needs = 'webhook:write';
  const change = (what: Change) => call('patch /api/v1/webhook/{wid}', { wid, ...what });
  return (
    <>
      <Form
        submit="Send a test"
        needs={enabled && needs}
        onSubmit={() => call('post /api/v1/webhook/{wid}/test', { wid })}
      />
      <Ask
        text="Edit"
        title="Edit the webhook"
        submit="Save"
        needs={needs}
        fields={[
          { name: 'url', label: 'URL', required: true, value: url },
          { ...eventField, value: webhook.events },
        ]}
        onSubmit={change}
      />
      <Ask
        text="Rotate secret"
        title="Rotate the secret"
        submit="Rotate"
        needs={needs}
        fields={[
          { name: 'replaceLatest', label: 'Replace the secret of the last rotation, which nobody has', as: 'check' },
        ]}
        onSubmit={(given) => call('post /api/v1/webhook/{wid}/rotate', { wid, ...given })}
        shows={(answer) => secretOf('The new secret', 'Secret of the webhook', answer.webhook.secret)}
      >
        <p>For 24 hours the earlier secret signs too: give your receiver the new one until then.</p>
      </Ask>
      <Form
        submit={enabled ? 'Disable' : 'Enable'}
        look="minor"
        needs={needs}
        onSubmit={() => change({ enabled: !enabled })}
      />
      <Ask
        text="Delete"
        look="outline danger"
        title="Delete the webhook"
        submit="Delete for good"
        needs={needs}
        onSubmit={() => call('delete /api/v1/webhook/{wid}', { wid }).then(() => route(pathOf('webhooks')))}
      >
        <p>
          <strong>{url}</strong> is told nothing more. To stop it for a while, disable it instead.
        </p>
      </Ask>
    </>
  );
}

type Delivery = ItemOf<'get /api/v1/webhook/{wid}/deliveries'>;
type Props = {
  of: One;
  /** A try may have changed the webhook's state. */
  onTried(): void;
};

// As long as a try may take.
const SOON_MS = 60_000;
const AGAIN_MS = 1_500;

const columns: readonly Column<Delivery>[] = [
  {
    title: 'Event',
    isMain: true,
    cell: (one) => (
      <Opens text={one.type} look="link">
        <Opened of={one} />
      </Opens>
    ),
  },
  { title: 'Told', width: '12.5rem', time: 'createdAt', isExtra: true },
  { title: 'State', width: '8rem', cell: stateOf },
  { title: 'Tries', width: '5rem', amount: ({ tries }) => tries.length, isExtra: true },
  { title: 'Last answer', cell: ({ tries }) => <Answer of={tries.at(-1)} />, isExtra: true },
];

const tryColumns: readonly Column<Delivery['tries'][number]>[] = [
  { title: 'When', width: '11.5rem', time: 'at' },
  { title: 'Answer', cell: (one) => <Answer of={one} /> },
  { title: 'ms', width: '5rem', amount: 'durationMs', isExtra: true },
  { title: 'It said', text: 'answer', isMain: true },
];

/** What a webhook was told in the last 30 days, each try of it, and telling it again. */
function Deliveries({ of: { id: wid, enabled }, onTried }: Props) {
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
  const again = (
    <button type="button" class="outline" onClick={reload}>
      Look again
    </button>
  );
  return (
    <Section title="Deliveries" action={again}>
      <PagedTable
        label="Deliveries"
        columns={columns}
        pages={pages}
        empty="Nothing was told in the last 30 days. Send a test to see whether your receiver gets it."
      />
    </Section>
  );
}

function isDue({ state, nextTryAt }: Delivery): boolean {
  return state === 'WAITING' && nextTryAt !== undefined && Date.parse(nextTryAt) < Date.now() + SOON_MS;
}

function stateOf({ state }: Delivery) {
  if (state === 'DELIVERED') return <State kind="good">Delivered</State>;
  return state === 'FAILED' ? <State kind="bad">Failed</State> : <State kind="idle">Waiting</State>;
}

function Answer({ of: one }: { of: Delivery['tries'][number] | undefined }) {
  if (!one) return <span class="muted">not tried yet</span>;
  return <span title={one.error}>{one.error ?? one.status}</span>;
}

function Opened({ of: delivery }: { of: Delivery }) {
  const { id: did, type, eventId, createdAt, nextTryAt, tries } = delivery;
  const wid = useRoute().params['webhook'] ?? '';
  const mayChange = useMay()('webhook:write');
  const details = (
    <>
      <Facts
        of={[
          ['webhook-id', <code>{eventId}</code>],
          ['Told', <Time at={createdAt} />],
          ['Tried next', nextTryAt && <Time at={nextTryAt} />],
        ]}
      />
      <Table
        label="Tries"
        columns={tryColumns}
        items={tries}
        keyOf={({ at }) => at}
        isFlat="wraps"
        empty="No try yet."
      />
    </>
  );
  if (!mayChange) return <Dialog title={type}>{details}</Dialog>;
  const redeliver = () => call('post /api/v1/webhook/{wid}/delivery/{did}/redeliver', { wid, did });
  return (
    <AskDialog title={type} submit="Deliver again" onSubmit={redeliver}>
      {details}
      <p>It goes out under the same webhook-id, also if it was delivered.</p>
    </AskDialog>
  );
}
