import { useState } from 'preact/hooks';
import { useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useMay, useWorkspace } from '../../data/session.ts';
import { Dialog, Field, Form, localTime, momentOf } from '../../parts/form.tsx';
import { LimitsForm, LimitsTable } from '../../parts/limits.tsx';
import { Page, usePath } from '../../parts/page.tsx';
import { Facts, ProblemNote, Secret, Time } from '../../parts/text.tsx';
import { KeyState, type ApiKey } from './keys.tsx';
import { KeyOutcomes } from './outcomes.tsx';
import { KeyScopes } from './key-scopes.tsx';

type Change = Omit<Input<'patch /api/v1/workspace/{id}/api-key/{akid}'>, 'id' | 'akid'>;
type Doing = 'rotate' | 'delete' | 'edit' | 'limits' | undefined;

/** One key, and what can be done with it. */
export function Key() {
  const { id } = useWorkspace();
  const may = useMay();
  const akid = useRoute().params['key'] ?? '';
  const [doing, setDoing] = useState<Doing>();
  const read = useRead((signal) => call('get /api/v1/workspace/{id}/api-key/{akid}', { id, akid }, signal), [id, akid]);
  const key = read.value?.apiKey;
  const close = () => setDoing(undefined);
  const change = async (what: Change) => {
    await call('patch /api/v1/workspace/{id}/api-key/{akid}', { id, akid, ...what });
    close();
    read.reload();
  };
  const rotate = async (graceSeconds: number) =>
    (await call('post /api/v1/workspace/{id}/api-key/{akid}/rotate', { id, akid, graceSeconds })).apiKey.key;
  const problem = <ProblemNote problem={read.problem} onRetry={read.reload} />;
  if (!key) return read.problem ? <Page title="Key">{problem}</Page> : <p aria-busy="true">Loading…</p>;
  const mayChange = may('key:write') && !key.deleted;
  return (
    <Page title={key.name} action={mayChange && <Actions of={key} onChange={change} onDo={setDoing} />}>
      {problem}
      <KeyFacts of={key} />
      {key.metadata && (
        <section>
          <h2>Metadata</h2>
          <Facts
            of={Object.entries(key.metadata).map(([name, value]) => [
              name,
              typeof value === 'string' ? value : <code>{JSON.stringify(value)}</code>,
            ])}
          />
        </section>
      )}
      <section>
        <header class="page">
          <h2>Limits</h2>
          {mayChange && (
            <button type="button" class="outline" onClick={() => setDoing('limits')}>
              Change limits
            </button>
          )}
        </header>
        <LimitsTable limits={key.limits ?? []} perSecond={key.rateLimitPerSecond} />
      </section>
      {may('usage:read') && <KeyOutcomes apiKeyId={key.id} />}
      <KeyScopes key={key.id} of={key} mayChange={mayChange} onChange={change} />
      {doing === 'rotate' && <Rotate onRotate={rotate} onClose={close} onRotated={read.reload} />}
      {doing === 'delete' && <Delete of={key} onClose={close} onDeleted={read.reload} />}
      {doing === 'edit' && <Edit of={key} onClose={close} onChange={change} />}
      {doing === 'limits' && (
        <Dialog title="Limits of the key" onClose={close}>
          <LimitsForm
            limits={key.limits ?? []}
            onSubmit={(limits) => change({ limits: limits.length > 0 ? limits : null })}
          />
        </Dialog>
      )}
    </Page>
  );
}

function KeyFacts({ of: key }: { of: ApiKey }) {
  const pathOf = usePath();
  return (
    <Facts
      of={[
        ['State', <KeyState of={key} />],
        ['Key', <code>{key.maskedKey}</code>],
        ['Id', <code>{key.id}</code>],
        ['Customer', key.customerId ?? <span class="muted">none</span>],
        [
          'Meter',
          key.billingId ? (
            <a href={pathOf(`customers/${key.billingId}`)}>{key.externalMeterId}</a>
          ) : (
            (key.externalMeterId ?? <span class="muted">none: its calls cost nothing</span>)
          ),
        ],
        ['Expires', <Time at={key.expiresAt} />],
        ['Last used', <Time at={key.lastUsedAt} />],
        ['Made', <Time at={key.createdAt} />],
        ['May come from', key.allowedIPs?.join(', ') || <span class="muted">any address</span>],
      ]}
    />
  );
}

function Actions({
  of: key,
  onChange,
  onDo,
}: {
  of: ApiKey;
  onChange(what: Change): Promise<void>;
  onDo(what: Doing): void;
}) {
  return (
    <>
      <button type="button" onClick={() => onDo('rotate')}>
        Rotate
      </button>
      <button type="button" class="outline" onClick={() => onDo('edit')}>
        Edit
      </button>
      <Form submit={key.enabled ? 'Disable' : 'Enable'} isMinor onSubmit={() => onChange({ enabled: !key.enabled })}>
        {null}
      </Form>
      <button type="button" class="outline danger" onClick={() => onDo('delete')}>
        Delete
      </button>
    </>
  );
}

type RotateProps = { onRotate(graceSeconds: number): Promise<string>; onClose(): void; onRotated(): void };

/** Asks how long the earlier secret goes on, and shows the new one. */
export function Rotate({ onRotate, onClose, onRotated }: RotateProps) {
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <Dialog title="The new secret" onClose={onClose}>
        <Secret label="Secret of the key" text={secret} />
      </Dialog>
    );
  }
  return (
    <Dialog title="Rotate the key" onClose={onClose}>
      <Form
        submit="Rotate key"
        onSubmit={async (value) => {
          setSecret(await onRotate(Math.round(Number(value('hours') || 0) * 3600)));
          onRotated();
        }}
      >
        <p>The key gets a new secret. It keeps its id, its settings and its usage.</p>
        <Field
          label="Hours of grace"
          name="hours"
          type="number"
          min="0"
          max="168"
          step="any"
          value="24"
          hint="For how long the earlier secret goes on working; 0 ends it at once."
        />
      </Form>
    </Dialog>
  );
}

function Delete({ of: key, onClose, onDeleted }: { of: ApiKey; onClose(): void; onDeleted(): void }) {
  const { id } = useWorkspace();
  return (
    <Dialog title="Delete the key" onClose={onClose}>
      <Form
        submit="Delete for good"
        onSubmit={async () => {
          await call('delete /api/v1/workspace/{id}/api-key/{akid}', { id, akid: key.id });
          onClose();
          onDeleted();
        }}
      >
        <p>
          <strong>{key.name}</strong> never verifies again. Its record and its usage stay readable. To refuse it for a
          while, disable it instead.
        </p>
      </Form>
    </Dialog>
  );
}

function Edit({ of: key, onClose, onChange }: { of: ApiKey; onClose(): void; onChange(what: Change): Promise<void> }) {
  return (
    <Dialog title="Edit the key" onClose={onClose}>
      <Form
        submit="Save"
        onSubmit={(value) =>
          onChange({
            name: value('name'),
            // The field tells minutes, and of an hour that comes twice not which: what nobody changed stays as it is.
            ...(value('expiresAt') !== localTime(key.expiresAt) && { expiresAt: momentOf(value('expiresAt')) ?? null }),
            rateLimitPerSecond: value('perSecond') === '' ? null : Number(value('perSecond')),
            allowedIPs: value('addresses') === '' ? null : value('addresses').split(/[\s,]+/),
          })
        }
      >
        <Field label="Name" name="name" required maxLength={128} value={key.name} />
        <Field
          label="Expires"
          name="expiresAt"
          type="datetime-local"
          value={localTime(key.expiresAt)}
          hint="In your time zone. Empty: never."
        />
        <Field
          label="Requests per second"
          name="perSecond"
          type="number"
          min="1"
          value={key.rateLimitPerSecond ?? ''}
          hint="Empty: as the workspace says."
        />
        <Field
          label="Addresses"
          name="addresses"
          value={key.allowedIPs?.join(', ') ?? ''}
          hint="Addresses and CIDR blocks it may come from, with commas between. Empty: as the workspace says."
        />
      </Form>
    </Dialog>
  );
}
