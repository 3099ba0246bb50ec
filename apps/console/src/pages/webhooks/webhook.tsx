import { useEffect } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, callAll, type Input } from '../../data/call.ts';
import { useAnswer, useHome, useMay, usePages, useWorkspace, type ItemOf } from '../../data/hooks.ts';
import { Ask, AskDialog, Opens, Switch } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Page, Section } from '../../parts/page.tsx';
import { PagedTable } from '../../parts/table.tsx';
import { Amount, Facts, Loaded, State, Time, type Standing } from '../../parts/text.tsx';
import { eventField, isGivenUp, webhookState, type Webhook as One } from './webhooks.tsx';

type Change = Omit<Input<'patch /api/v1/webhook/{wid}'>, 'wid'>;

const whys = {
  REQUESTED: '',
  FAILING: 'Given up, after five days of failures',
  GONE: 'Given up: it answered 410, gone',
};

/** One webhook, what it was told, and what can be done with it. */
export function Webhook({ id: wid }: { id: string }) {
  const read = useAnswer('get /api/v1/webhook/{wid}', { wid });
  const mayChange = useMay()('webhook:write');
  useHome(read.value?.webhook.workspaceId, `webhooks/${wid}`);
  return (
    <Loaded of={read}>
      {({ webhook, webhook: { enabled, failingSince, disabledAt, disabledReason } }) => (
        <Page title={webhook.description ?? new URL(webhook.url).host} action={mayChange && <Actions of={webhook} />}>
          <Facts
            of={[
              ['State', <State of={webhookState(webhook)} />],
              ['Every try fails since', enabled && failingSince && <Time at={failingSince} />],
              [whys[disabledReason ?? 'REQUESTED'], isGivenUp(webhook) && <Time at={disabledAt} />],
              ['URL', webhook.url],
              ['Events', webhook.events.join(', ')],
              ['Of', webhook.workspaceId === undefined ? 'all workspaces of the team' : 'this workspace'],
              ['Missed, because too many waited', webhook.missedEvents > 0 && <Amount of={webhook.missedEvents} />],
              ['Created', <Time at={webhook.createdAt} />],
              ['Id', <code>{webhook.id}</code>],
            ]}
          />
          <Deliveries of={webhook} onTried={read.reload} />
        </Page>
      )}
    </Loaded>
  );
}

function Actions({ of: { id: wid, enabled, events, url } }: { of: One }) {
  const { route } = useLocation();
  const { pathOf } = useWorkspace();
  const change = (what: Change) => call('patch /api/v1/webhook/{wid}', { wid, ...what });
  const test = () => call('post /api/v1/webhook/{wid}/test', { wid });
  const replaces = 'Replace the secret of the last rotation, which nobody has';
  return (
    <>
      {enabled && <Form submit="Send a test" onSubmit={test} />}
      <Ask
        does="Edit"
        one="webhook"
        fields={[
          { name: 'url', label: 'URL', required: true, value: url },
          { ...eventField, value: events },
        ]}
        onSubmit={change}
      />
      <Ask
        does="Rotate"
        one="secret"
        text="Rotate secret"
        submit="Rotate"
        fields={[{ name: 'replaceLatest', label: replaces, as: 'check' }]}
        onSubmit={(given) => call('post /api/v1/webhook/{wid}/rotate', { wid, ...given })}
        shows={(answer) => ({ title: 'The new secret', label: 'Secret of the webhook', text: answer.webhook.secret })}
        says="For 24 hours the earlier secret signs too: give your receiver the new one until then."
      />
      <Switch is={enabled} onChange={change} />
      <Ask
        does="Delete"
        one="webhook"
        onSubmit={() => call('delete /api/v1/webhook/{wid}', { wid }).then(() => route(pathOf('webhooks')))}
        says={`${url} is told nothing more. To stop it for a while, disable it instead.`}
      />
    </>
  );
}

type Delivery = ItemOf<'get /api/v1/webhook/{wid}/deliveries'>;
type TryOf = Delivery['tries'][number];

// As long as a try may take.
const SOON_MS = 60_000;
const AGAIN_MS = 1_500;
const PAGE = 50;

const states = { DELIVERED: ['good', 'Delivered'], FAILED: ['bad', 'Failed'], WAITING: ['idle', 'Waiting'] } as const;

function deliveryState({ state, tries }: Delivery): Standing {
  if (state !== 'WAITING' || tries.length === 0) return states[state];
  return ['bad', `Failed ${tries.length} times`, 'It is tried again.'];
}

/** What a webhook was told in the last 30 days, each try of it, and telling it again. */
function Deliveries({ of: { id: wid, enabled }, onTried }: { of: One; onTried(): void }) {
  const pages = usePages('get /api/v1/webhook/{wid}/deliveries', { wid, limit: PAGE });
  const { items, reload } = pages;
  // What is tried any moment shows by itself, and may have changed the webhook's state.
  useEffect(() => {
    if (items.length > 0) onTried();
    // What waits for a webhook that is disabled is not tried, and a list that somebody reads on stays.
    const isDue = ({ state, nextTryAt = '' }: Delivery) =>
      state === 'WAITING' && Date.parse(nextTryAt) < Date.now() + SOON_MS;
    if (!enabled || items.length > PAGE || !items.some(isDue)) return undefined;
    const timer = setTimeout(reload, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [items, enabled]);
  const failed = items.filter((one) => deliveryState(one)[0] === 'bad');
  const mayResend = enabled && failed.length > 0;
  const resent = failed.map(({ id: did }) => ({ wid, did }));
  const again = () => callAll('post /api/v1/webhook/{wid}/delivery/{did}/redeliver', resent);
  const opened = (one: Delivery) => (
    <Opens text={one.type} look="link">
      <Opened wid={wid} of={one} />
    </Opens>
  );
  return (
    <Section
      title="Deliveries"
      action={
        <>
          <Form submit="Send all failed again" look="minor" needs={mayResend && 'webhook:write'} onSubmit={again} />
          <Form submit="Refresh" look="minor" onSubmit={async () => reload()} />
        </>
      }
    >
      <PagedTable
        label="Deliveries"
        pages={pages}
        columns={[
          { title: 'Event', cell: opened },
          { title: 'Sent', width: '11rem', time: 'createdAt' },
          { title: 'State', width: '8.5rem', state: deliveryState },
          { title: 'Tries', width: '5rem', amount: ({ tries }) => tries.length },
          { title: 'Last answer', text: ({ tries }) => answerOf(tries.at(-1)), none: 'not tried yet' },
        ]}
        empty="Nothing was sent in the last 30 days. Send a test to see whether your receiver gets it."
      />
    </Section>
  );
}

const answerOf = (one: TryOf | undefined) => one?.error ?? one?.status;

function Opened({ wid, of }: { wid: string; of: Delivery }) {
  const { id: did, type, data, eventId, createdAt, nextTryAt, tries } = of;
  return (
    <AskDialog
      title={type}
      submit="Deliver again"
      needs="webhook:write"
      onSubmit={() => call('post /api/v1/webhook/{wid}/delivery/{did}/redeliver', { wid, did })}
      says="It goes out under the same webhook-id, also if it was delivered."
    >
      <Facts
        of={[
          ['Told', (eventField.meanings as Partial<Record<string, string>>)[type]],
          ['webhook-id', <code>{eventId}</code>],
          ['Data', <code>{JSON.stringify(data)}</code>],
          ['Sent', <Time at={createdAt} />],
          ['Tried next', nextTryAt && <Time at={nextTryAt} />],
          ...tries.map((one, i) => [`Try ${i + 1}`, <Try of={one} />] as const),
        ]}
      />
    </AskDialog>
  );
}

function Try({ of: one }: { of: TryOf }) {
  return (
    <>
      <Time at={one.at} />: {answerOf(one)} after <Amount of={one.durationMs} /> ms
      {one.answer && `: ${one.answer}`}
    </>
  );
}
