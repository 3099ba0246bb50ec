import { useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { useAnswer, useMay, useWorkspace } from '../../data/hooks.ts';
import { Ask, secretOf } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Limits } from '../../parts/limits.tsx';
import { Outcomes } from '../../parts/outcomes.tsx';
import { PageOf, Section } from '../../parts/page.tsx';
import { Facts, None, Time } from '../../parts/text.tsx';
import { Refusals } from '../refusals.tsx';
import { stateOf, type ApiKey } from './keys.tsx';
import { KeyScopes } from './scopes.tsx';

type Change = Omit<Input<'patch /api/v1/workspace/{id}/api-key/{akid}'>, 'id' | 'akid'>;
type OnChange = (what: Change) => Promise<unknown>;

/** One key, and what can be done with it. */
export function Key() {
  const { id } = useWorkspace();
  const may = useMay();
  const akid = useRoute().params['key'] ?? '';
  const of = { id, akid };
  const read = useAnswer('get /api/v1/workspace/{id}/api-key/{akid}', of);
  const change: OnChange = (what) => call('patch /api/v1/workspace/{id}/api-key/{akid}', { ...of, ...what });
  return (
    <PageOf
      of={read}
      name="Key"
      show={({ apiKey: key }) => {
        const needs = !key.deleted && 'key:write';
        return {
          title: key.name,
          action: may(needs) && <Actions of={key} onChange={change} />,
          children: (
            <>
              <KeyFacts of={key} />
              <Limits
                title="Limits"
                limits={key.limits}
                perSecond={key.rateLimitPerSecond}
                needs={needs}
                read={async () => (await call('get /api/v1/workspace/{id}/api-key/{akid}', of)).apiKey.limits}
                onChange={(limits) => change({ limits })}
              />
              {may('usage:read') && (
                <>
                  <Outcomes of={{ apiKeyId: akid }} />
                  <Refusals of={{ apiKeyId: akid }} bid={key.billingId} />
                </>
              )}
              <KeyScopes key={akid} of={key} needs={needs} onChange={change} />
            </>
          ),
        };
      }}
    />
  );
}

function KeyFacts({ of: key }: { of: ApiKey }) {
  const { pathOf } = useWorkspace();
  const { externalMeterId: meter, billingId, metadata = {} } = key;
  const record = <a href={pathOf(`customers/${billingId}`)}>{meter}</a>;
  return (
    <>
      <Facts
        of={[
          ['State', stateOf(key)],
          ['Key', <code>{key.maskedKey}</code>],
          ['Id', <code>{key.id}</code>],
          ['Customer', key.customerId ?? <None />],
          ['Meter', billingId ? record : (meter ?? <None>none: its calls cost nothing</None>)],
          ['Expires', <Time at={key.expiresAt} />],
          ['Last used', <Time at={key.lastUsedAt} />],
          ['Made', <Time at={key.createdAt} />],
          ['May come from', key.allowedIPs?.join(', ') || <None>any address</None>],
        ]}
      />
      {Object.keys(metadata).length > 0 && (
        <Section title="Metadata">
          <Facts
            of={Object.entries(metadata).map(([name, value]) => [
              name,
              typeof value === 'string' ? value : <code>{JSON.stringify(value)}</code>,
            ])}
          />
        </Section>
      )}
    </>
  );
}

function Actions({ of: key, onChange }: { of: ApiKey; onChange: OnChange }) {
  const { id } = useWorkspace();
  const of = { id, akid: key.id };
  const addresses = 'Addresses and CIDR blocks it may come from, with commas between. Empty: as the workspace says.';
  const rate = {
    as: 'number',
    min: '1',
    hint: 'Empty: as the workspace says.',
    value: key.rateLimitPerSecond,
  } as const;
  const end = { as: 'moment', hint: 'In your time zone. Empty: never.', value: key.expiresAt } as const;
  return (
    <>
      <Rotate
        look="main"
        onRotate={(graceSeconds) => call('post /api/v1/workspace/{id}/api-key/{akid}/rotate', { ...of, graceSeconds })}
      />
      <Ask
        text="Edit"
        title="Edit the key"
        submit="Save"
        fields={[
          { name: 'name', label: 'Name', required: true, maxLength: 128, value: key.name },
          { name: 'expiresAt', label: 'Expires', clears: true, ...end },
          { name: 'rateLimitPerSecond', label: 'Requests per second', clears: true, ...rate },
          { name: 'allowedIPs', label: 'Addresses', clears: true, value: key.allowedIPs?.join(', '), hint: addresses },
        ]}
        onSubmit={({ allowedIPs, ...given }) => onChange({ ...given, allowedIPs: allowedIPs?.split(/[\s,]+/) ?? null })}
      />
      <Form
        submit={key.enabled ? 'Disable' : 'Enable'}
        look="minor"
        onSubmit={() => onChange({ enabled: !key.enabled })}
      />
      <Ask
        text="Delete"
        look="outline danger"
        title="Delete the key"
        submit="Delete for good"
        onSubmit={() => call('delete /api/v1/workspace/{id}/api-key/{akid}', of)}
      >
        <p>
          <strong>{key.name}</strong> never verifies again. Its record and its usage stay readable. To refuse it for a
          while, disable it instead.
        </p>
      </Ask>
    </>
  );
}

type RotateProps = {
  look: 'main' | 'outline small';
  label?: string;
  onRotate(graceSeconds: number): Promise<{ apiKey: { key: string } }>;
};

/** Asks how long the earlier secret goes on, and shows the new one. */
export function Rotate({ onRotate, ...button }: RotateProps) {
  const grace = 'For how long the earlier secret goes on working; 0 ends it at once.';
  const hours = { name: 'hours', label: 'Hours of grace', as: 'number', value: '24', hint: grace } as const;
  return (
    <Ask
      text="Rotate"
      {...button}
      title="Rotate the key"
      submit="Rotate key"
      fields={[{ ...hours, min: '0', max: '168', step: 'any' }]}
      onSubmit={(given) => onRotate(Math.round((given.hours ?? 0) * 3600))}
      shows={({ apiKey }) => secretOf('The new secret', 'Secret of the key', apiKey.key)}
    >
      <p>The key gets a new secret. It keeps its id, its settings and its usage.</p>
    </Ask>
  );
}
