import { webhookEventTypes, type WebhookEventType } from '../../../../../shared/contract/webhook-event-types.ts';
import { call, type Output } from '../../data/call.ts';
import { useSession, useWorkspace } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { Page } from '../../parts/page.tsx';
import { List } from '../../parts/table.tsx';
import type { Standing } from '../../parts/text.tsx';

export type Webhook = Output<'get /api/v1/webhook/{wid}'>['webhook'];
const meanings: Record<WebhookEventType, string> = {
  'credits.alert': 'a customer crosses an alert',
  'credits.exhausted': 'a customer has no credits left, or reached its cap',
  'credits.replenished': 'such a customer can go on',
  'grant.began': 'granted credits begin',
  'grant.expiring': 'they end in 7 days, or in one',
  'grant.expired': 'they ended',
  'limit.reached': 'a limit of a minute or longer refuses a call',
  'key.created': 'a key is made or imported',
  'key.rotated': 'a key gets a new secret',
  'key.deleted': 'a key is deleted',
  'key.expiring': 'a key expires in 7 days, or in one',
  'hold.expired': 'nobody captured or released a hold',
  'books.different': 'a balance and its events differ',
  'meter.failed': 'usage does not get through to a meter outside',
  'month.closed': 'the statements of a month are final',
};
/** The types of events, to tick, and what each means. */
export const eventField = {
  name: 'events',
  label: 'Events',
  as: 'ticks',
  options: webhookEventTypes,
  meanings,
} as const;

/** Where events of the workspace are posted. */
export function Webhooks() {
  const { id } = useWorkspace();
  const { isOfTeam } = useSession();
  const ofAll = { name: 'all', label: 'Of all workspaces of the team', as: 'check' } as const;
  const make = (
    <Ask
      does="New"
      one="webhook"
      needs="webhook:write"
      fields={[
        { name: 'url', label: 'URL', required: true, placeholder: 'https://', hint: 'Where events are posted.' },
        { name: 'description', label: 'What it is for', maxLength: 256 },
        eventField,
        ...(isOfTeam ? [ofAll] : []),
      ]}
      onSubmit={({ all, ...given }) => call('post /api/v1/webhook', { ...given, ...(!all && { workspaceId: id }) })}
      shows={({ webhook }) => ({
        title: 'The new webhook',
        label: 'Secret of the webhook',
        text: webhook.secret,
        more: <p class="muted">Your receiver checks with it that an event comes from here.</p>,
      })}
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
          { title: 'URL', width: '40%', text: 'url', link: (one) => `webhooks/${one.id}` },
          { title: 'For', text: 'description' },
          { title: 'Events', text: ({ events }) => events.join(', ') },
          { title: 'State', width: '8rem', state: webhookState },
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
export function webhookState(of: Webhook): Standing {
  if (isGivenUp(of)) return ['bad', 'Given up'];
  if (!of.enabled) return ['idle', 'Disabled'];
  return of.failingSince === undefined ? ['good', 'Active'] : ['bad', 'Failing'];
}
