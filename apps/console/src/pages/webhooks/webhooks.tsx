import { call, type Input, type Output } from '../../data/call.ts';
import { useSession, useWorkspace } from '../../data/hooks.ts';
import { Ask, secretOf } from '../../parts/dialog.tsx';
import { Page } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import { State, Time } from '../../parts/text.tsx';

export type Webhook = Output<'get /api/v1/webhook/{wid}'>['webhook'];
type EventType = Input<'post /api/v1/webhook'>['events'][number];

// Typed, so that none is forgotten: the contract's file of them has more than a browser knows.
const eventTypes = {
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
} satisfies Record<EventType, true>;
/** The types of events, to tick. */
export const eventField = {
  name: 'events',
  label: 'Events',
  as: 'ticks',
  options: (Object.keys(eventTypes) as EventType[]).map((one) => [one, one] as const),
} as const;

/** Where events of the workspace are posted. */
export function Webhooks() {
  const { id, pathOf } = useWorkspace();
  const { isOfTeam } = useSession();
  const ofAll = { name: 'all', label: 'Of all workspaces of the team', as: 'check' } as const;
  const make = (
    <Ask
      look="main"
      title="New webhook"
      submit="Create webhook"
      needs="webhook:write"
      fields={[
        { name: 'url', label: 'URL', required: true, placeholder: 'https://', hint: 'Where events are posted.' },
        { name: 'description', label: 'What it is for', maxLength: 256 },
        eventField,
        ...(isOfTeam ? [ofAll] : []),
      ]}
      onSubmit={({ all, ...given }) => call('post /api/v1/webhook', { ...given, ...(!all && { workspaceId: id }) })}
      shows={({ webhook }) =>
        secretOf(
          'The new webhook',
          'Secret of the webhook',
          webhook.secret,
          <p class="muted">Your receiver checks with it that an event comes from here.</p>,
        )
      }
    />
  );
  return (
    <Page title="Webhooks" action={make}>
      <List
        label="Webhooks"
        of="get /api/v1/webhook"
        input={{ limit: 100 }}
        keep={(one) => isOf(one, id)}
        columns={[
          {
            title: 'URL',
            isMain: true,
            below: 'description',
            width: '40%',
            text: 'url',
            link: (one) => pathOf(`webhooks/${one.id}`),
          },
          { title: 'For', text: 'description', isExtra: true },
          { title: 'Events', text: ({ events }) => events.join(', '), isExtra: true },
          { title: 'State', width: '8rem', cell: (one) => <WebhookState of={one} /> },
        ]}
        empty="No webhook yet. A webhook posts what happens, such as a customer's credits that run low, to a URL of yours: make one."
      />
    </Page>
  );
}

/** Whether a webhook is told of a workspace: of that one, or of all of the team. */
export function isOf({ workspaceId }: Webhook, id: string): boolean {
  return workspaceId === undefined || workspaceId === id;
}

/** Whether it is told nothing more, because it did not get through. */
export function isGivenUp({ enabled, disabledReason }: Webhook): boolean {
  return !enabled && disabledReason !== 'REQUESTED';
}

/** Whether a webhook gets through, and else why not. */
export function WebhookState({ of }: { of: Webhook }) {
  if (isGivenUp(of)) return <State kind="bad">Given up</State>;
  if (!of.enabled) return <State kind="idle">Disabled</State>;
  return of.failingSince === undefined ? <State kind="good">Enabled</State> : <State kind="bad">Failing</State>;
}

/** What has happened to a webhook that does not get through; nothing to one that does. */
export function WebhookTrouble({ of: { enabled, disabledReason, disabledAt, failingSince } }: { of: Webhook }) {
  if (enabled && failingSince === undefined) return null;
  if (!enabled && disabledReason === 'REQUESTED') return null;
  const isGone = disabledReason === 'GONE';
  return (
    <>
      {enabled ? 'every try fails since ' : isGone ? 'its receiver answered 410, gone, ' : 'disabled '}
      <Time at={enabled ? failingSince : disabledAt} />
      {!enabled && !isGone && ', after five days of failures'}
    </>
  );
}
