import { useState } from 'preact/hooks';
import { call, type Input, type Output } from '../../data/call.ts';
import { usePages } from '../../data/hooks.ts';
import { useMay, useSession, useWorkspace } from '../../data/session.ts';
import { Check, Dialog, Field, Form } from '../../parts/form.tsx';
import { Page, usePath } from '../../parts/page.tsx';
import { PagedTable, type Column } from '../../parts/table.tsx';
import { Secret, State, Time } from '../../parts/text.tsx';

export type Webhook = Output<'get /api/v1/webhook/{wid}'>['webhook'];
export type WebhookEvents = Input<'post /api/v1/webhook'>['events'];

// Typed, so that none is forgotten: the contract's file of them has more than a browser knows.
const eventTypes = Object.keys({
  'credits.alert': true,
  'credits.exhausted': true,
  'credits.replenished': true,
  'grant.began': true,
  'grant.expiring': true,
  'grant.expired': true,
  'limit.reached': true,
  'key.created': true,
  'key.rotated': true,
  'key.deleted': true,
  'key.expiring': true,
  'hold.expired': true,
  'books.different': true,
  'month.closed': true,
} satisfies Record<WebhookEvents[number], true>);

/** Where events of the workspace are posted. */
export function Webhooks() {
  const may = useMay();
  const { id } = useWorkspace();
  const pathOf = usePath();
  const [isMaking, setMaking] = useState(false);
  const { reload, ...pages } = usePages(
    async (cursor, signal) => {
      const page = await call('get /api/v1/webhook', { limit: 100, ...(cursor && { cursor }) }, signal);
      return { items: page.webhooks.filter((one) => isOf(one, id)), nextCursor: page.nextCursor };
    },
    [id],
  );
  const columns: readonly Column<Webhook>[] = [
    {
      title: 'URL',
      isMain: true,
      below: ({ description }) => description,
      width: '40%',
      cell: (one) => (
        <a href={pathOf(`webhooks/${one.id}`)} title={one.url}>
          {one.url}
        </a>
      ),
    },
    { title: 'For', cell: ({ description }) => <span title={description}>{description}</span>, isExtra: true },
    {
      title: 'Events',
      cell: ({ events }) => <span title={events.join(', ')}>{events.join(', ')}</span>,
      isExtra: true,
    },
    { title: 'State', width: '8rem', cell: (one) => <WebhookState of={one} /> },
  ];
  return (
    <Page
      title="Webhooks"
      action={
        may('webhook:write') && (
          <button type="button" onClick={() => setMaking(true)}>
            New webhook
          </button>
        )
      }
    >
      <PagedTable
        label="Webhooks"
        columns={columns}
        pages={pages}
        keyOf={(one) => one.id}
        empty="No webhook yet. A webhook posts what happens, such as a customer's credits that run low, to a URL of yours: make one."
      />
      {isMaking && <NewWebhook onClose={() => setMaking(false)} onMade={reload} />}
    </Page>
  );
}

/** Whether a webhook is told of a workspace: of that one, or of all of the team. */
export function isOf({ workspaceId }: Webhook, id: string): boolean {
  return workspaceId === undefined || workspaceId === id;
}

/** Whether a webhook gets through, and else why not. */
export function WebhookState({ of: { enabled, disabledReason, failingSince } }: { of: Webhook }) {
  if (!enabled && disabledReason !== 'REQUESTED') return <State kind="bad">Given up</State>;
  if (!enabled) return <State kind="idle">Disabled</State>;
  return failingSince === undefined ? <State kind="good">Enabled</State> : <State kind="bad">Failing</State>;
}

/** What has happened to a webhook that does not get through; nothing to one that does. */
export function WebhookTrouble({ of: { enabled, disabledReason, disabledAt, failingSince } }: { of: Webhook }) {
  if (!enabled && disabledReason === 'GONE')
    return (
      <>
        its receiver answered 410, gone, <Time at={disabledAt} />
      </>
    );
  if (!enabled && disabledReason === 'FAILING')
    return (
      <>
        disabled <Time at={disabledAt} />, after five days of failures
      </>
    );
  if (!enabled || failingSince === undefined) return null;
  return (
    <>
      every try fails since <Time at={failingSince} />
    </>
  );
}

/** The types of events, to tick. */
export function EventChoices({ chosen }: { chosen: readonly string[] }) {
  return (
    <fieldset>
      <legend>Events</legend>
      <div class="choices">
        {eventTypes.map((one) => (
          <label key={one} class="check">
            <input type="checkbox" name="event" value={one} defaultChecked={chosen.includes(one)} /> <code>{one}</code>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function NewWebhook({ onClose, onMade }: { onClose(): void; onMade(): void }) {
  const { session } = useSession();
  const { id } = useWorkspace();
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <Dialog title="The new webhook" onClose={onClose}>
        <Secret label="Secret of the webhook" text={secret} />
        <p class="muted">Your receiver checks with it that an event comes from here.</p>
      </Dialog>
    );
  }
  return (
    <Dialog title="New webhook" onClose={onClose}>
      <Form
        submit="Create webhook"
        onSubmit={async (value, form) => {
          const { webhook } = await call('post /api/v1/webhook', {
            url: value('url'),
            events: form.getAll('event') as WebhookEvents,
            ...(!form.has('all') && { workspaceId: id }),
            ...(value('description') && { description: value('description') }),
          });
          setSecret(webhook.secret);
          onMade();
        }}
      >
        <Field label="URL" name="url" required placeholder="https://" hint="Where events are posted." />
        <Field label="What it is for" name="description" maxLength={256} />
        <EventChoices chosen={[]} />
        {session.workspaceIds === undefined && <Check label="Of all workspaces of the team" name="all" />}
      </Form>
    </Dialog>
  );
}
