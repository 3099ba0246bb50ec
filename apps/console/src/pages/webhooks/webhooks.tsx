import { webhookEventTypes, webhookMeanings } from '../../../../../shared/contract/webhook-event-types.ts';
import { call, type Output } from '../../data/call.ts';
import { useSession, useWorkspace } from '../../data/hooks.ts';
import { Ask } from '../../parts/dialog.tsx';
import { List } from '../../parts/table.tsx';
import type { Standing } from '../../parts/text.tsx';

export type Webhook = Output<'get /api/v1/webhook/{wid}'>['webhook'];
const ticked = { options: webhookEventTypes, meanings: webhookMeanings };
export const eventField = { name: 'events', label: 'Events', as: 'ticks', ...ticked } as const;

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
    <List
      page="Webhooks"
      action={make}
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
