import { useLocation, useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { useAnswer } from '../../data/hooks.ts';
import { useMay } from '../../data/session.ts';
import { Ask, secretOf } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { PageOf, usePath } from '../../parts/page.tsx';
import { Amount, Facts, Time } from '../../parts/text.tsx';
import { eventField, WebhookState, WebhookTrouble, type Webhook as One } from './webhooks.tsx';
import { Deliveries } from './deliveries.tsx';

type Change = Omit<Input<'patch /api/v1/webhook/{wid}'>, 'wid'>;

/** One webhook, what it was told, and what can be done with it. */
export function Webhook() {
  const mayChange = useMay()('webhook:write');
  const wid = useRoute().params['webhook'] ?? '';
  const read = useAnswer('get /api/v1/webhook/{wid}', { wid });
  return (
    <PageOf
      of={read}
      name="Webhook"
      show={({ webhook }) => ({
        title: webhook.description ?? new URL(webhook.url).host,
        action: mayChange && <Actions of={webhook} />,
        children: (
          <>
            <WebhookFacts of={webhook} />
            <Deliveries key={wid} of={webhook} mayChange={mayChange} onTried={read.reload} />
          </>
        ),
      })}
    />
  );
}

function WebhookFacts({ of: webhook }: { of: One }) {
  const { missedEvents } = webhook;
  return (
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
        ['Missed, because too many waited', missedEvents > 0 ? <Amount of={missedEvents} /> : undefined],
        ['Made', <Time at={webhook.createdAt} />],
        ['Id', <code>{webhook.id}</code>],
      ]}
    />
  );
}

function Actions({ of: webhook }: { of: One }) {
  const { route } = useLocation();
  const pathOf = usePath();
  const { id: wid, enabled, url } = webhook;
  const change = (what: Change) => call('patch /api/v1/webhook/{wid}', { wid, ...what });
  return (
    <>
      {enabled && <Form submit="Send a test" onSubmit={() => call('post /api/v1/webhook/{wid}/test', { wid })} />}
      <Ask
        text="Edit"
        title="Edit the webhook"
        submit="Save"
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
        fields={[
          { name: 'replaceLatest', label: 'Replace the secret of the last rotation, which nobody has', as: 'check' },
        ]}
        onSubmit={(given) => call('post /api/v1/webhook/{wid}/rotate', { wid, ...given })}
        shows={(answer) => secretOf('The new secret', 'Secret of the webhook', answer.webhook.secret)}
      >
        <p>For 24 hours the earlier secret signs too: give your receiver the new one until then.</p>
      </Ask>
      <Form submit={enabled ? 'Disable' : 'Enable'} look="minor" onSubmit={() => change({ enabled: !enabled })} />
      <Ask
        text="Delete"
        look="outline danger"
        title="Delete the webhook"
        submit="Delete for good"
        onSubmit={() => call('delete /api/v1/webhook/{wid}', { wid }).then(() => route(pathOf('webhooks')))}
      >
        <p>
          <strong>{url}</strong> is told nothing more. To stop it for a while, disable it instead.
        </p>
      </Ask>
    </>
  );
}
