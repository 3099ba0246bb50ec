import { useState } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useMay } from '../../data/session.ts';
import { Check, Dialog, Field, Form } from '../../parts/form.tsx';
import { Page, usePath } from '../../parts/page.tsx';
import { Amount, Facts, ProblemNote, Secret, Time } from '../../parts/text.tsx';
import { EventChoices, WebhookState, WebhookTrouble, type Webhook as One, type WebhookEvents } from './webhooks.tsx';
import { Deliveries } from './deliveries.tsx';

type Change = Omit<Input<'patch /api/v1/webhook/{wid}'>, 'wid'>;
type Doing = 'rotate' | 'edit' | 'delete' | undefined;

/** One webhook, what it was told, and what can be done with it. */
export function Webhook() {
  const may = useMay();
  const wid = useRoute().params['webhook'] ?? '';
  const [doing, setDoing] = useState<Doing>();
  const [tests, setTests] = useState(0);
  const read = useRead((signal) => call('get /api/v1/webhook/{wid}', { wid }, signal), [wid]);
  const webhook = read.value?.webhook;
  const close = () => setDoing(undefined);
  const change = async (what: Change) => {
    await call('patch /api/v1/webhook/{wid}', { wid, ...what });
    close();
    read.reload();
  };
  const problem = <ProblemNote problem={read.problem} onRetry={read.reload} />;
  if (!webhook) return read.problem ? <Page title="Webhook">{problem}</Page> : <p aria-busy="true">Loading…</p>;
  const mayChange = may('webhook:write');
  const test = () => call('post /api/v1/webhook/{wid}/test', { wid }).then(() => setTests(tests + 1));
  return (
    <Page
      title={webhook.description ?? new URL(webhook.url).host}
      action={mayChange && <Actions of={webhook} onTest={test} onChange={change} onDo={setDoing} />}
    >
      {problem}
      <WebhookFacts of={webhook} />
      <Deliveries key={wid} of={webhook} mayChange={mayChange} tests={tests} onTried={read.reload} />
      {doing === 'rotate' && <Rotate wid={wid} onClose={close} />}
      {doing === 'edit' && <Edit of={webhook} onClose={close} onChange={change} />}
      {doing === 'delete' && <Delete of={webhook} onClose={close} />}
    </Page>
  );
}

function WebhookFacts({ of: webhook }: { of: One }) {
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
        ...(webhook.missedEvents > 0
          ? ([['Missed, because too many waited', <Amount of={webhook.missedEvents} />]] as const)
          : []),
        ['Made', <Time at={webhook.createdAt} />],
        ['Id', <code>{webhook.id}</code>],
      ]}
    />
  );
}

type ActionsProps = {
  of: One;
  onTest(): Promise<void>;
  onChange(what: Change): Promise<void>;
  onDo(what: Doing): void;
};

function Actions({ of: { enabled }, onTest, onChange, onDo }: ActionsProps) {
  return (
    <>
      {enabled && (
        <Form submit="Send a test" onSubmit={onTest}>
          {null}
        </Form>
      )}
      <button type="button" class="outline" onClick={() => onDo('edit')}>
        Edit
      </button>
      <button type="button" class="outline" onClick={() => onDo('rotate')}>
        Rotate secret
      </button>
      <Form submit={enabled ? 'Disable' : 'Enable'} isMinor onSubmit={() => onChange({ enabled: !enabled })}>
        {null}
      </Form>
      <button type="button" class="outline danger" onClick={() => onDo('delete')}>
        Delete
      </button>
    </>
  );
}

function Rotate({ wid, onClose }: { wid: string; onClose(): void }) {
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <Dialog title="The new secret" onClose={onClose}>
        <Secret label="Secret of the webhook" text={secret} />
      </Dialog>
    );
  }
  return (
    <Dialog title="Rotate the secret" onClose={onClose}>
      <Form
        submit="Rotate"
        onSubmit={async (value) => {
          const replaceLatest = value('replace') === 'on';
          const rotated = await call('post /api/v1/webhook/{wid}/rotate', { wid, replaceLatest });
          setSecret(rotated.webhook.secret);
        }}
      >
        <p>For 24 hours the earlier secret signs too: give your receiver the new one until then.</p>
        <Check label="Replace the secret of the last rotation, which nobody has" name="replace" />
      </Form>
    </Dialog>
  );
}

type EditProps = { of: One; onClose(): void; onChange(what: Change): Promise<void> };

function Edit({ of: webhook, onClose, onChange }: EditProps) {
  return (
    <Dialog title="Edit the webhook" onClose={onClose}>
      <Form
        submit="Save"
        onSubmit={(value, form) => onChange({ url: value('url'), events: form.getAll('event') as WebhookEvents })}
      >
        <Field label="URL" name="url" required value={webhook.url} />
        <EventChoices chosen={webhook.events} />
      </Form>
    </Dialog>
  );
}

function Delete({ of: { id: wid, url }, onClose }: { of: One; onClose(): void }) {
  const { route } = useLocation();
  const pathOf = usePath();
  return (
    <Dialog title="Delete the webhook" onClose={onClose}>
      <Form
        submit="Delete for good"
        onSubmit={async () => {
          await call('delete /api/v1/webhook/{wid}', { wid });
          route(pathOf('webhooks'));
        }}
      >
        <p>
          <strong>{url}</strong> is told nothing more. To stop it for a while, disable it instead.
        </p>
      </Form>
    </Dialog>
  );
}
