import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call, type Input } from '../data/call.ts';
import { useAnswer } from '../data/hooks.ts';
import { useMay, useSession, useWorkspace, type Workspace } from '../data/session.ts';
import { Ask, AskDialog, Opens } from '../parts/dialog.tsx';
import { Field } from '../parts/form.tsx';
import { Limits } from '../parts/limits.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Page, Section } from '../parts/page.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Facts, None, Time } from '../parts/text.tsx';

type Change = Omit<Input<'patch /api/v1/workspace/{id}'>, 'id'>;
type Quota = { name: string; limit: number; used: number | undefined };

const quotaColumns: readonly Column<Quota>[] = [
  { title: 'Of', text: 'name', isMain: true },
  { title: 'Used', amount: 'used' },
  { title: 'At most', amount: 'limit' },
];
const quotaNames: Record<string, string> = {
  accessTokens: 'access tokens',
  billingRecords: 'billing records',
  storedBytes: 'stored bytes',
  linkTokens: 'link tokens',
  keptAnswerBytes: 'kept-answer bytes',
  verifyPerSecond: 'verifications / s',
  apiPerSecond: 'api calls / s',
};

/** The workspace's defaults, the team's quota, and who is signed in. */
export function Settings() {
  const workspace = useWorkspace();
  const mayWrite = useMay()('workspace:write');
  const change = (what: Change) => call('patch /api/v1/workspace/{id}', { id: workspace.id, ...what });
  const actions = (
    <>
      <Edit of={workspace} onChange={change} />
      <Opens text="Delete the workspace" look="outline danger">
        <Delete of={workspace} />
      </Opens>
    </>
  );
  return (
    <Page title="Settings" action={mayWrite && actions}>
      <WorkspaceFacts of={workspace} />
      <Limits
        title="Default limits of keys"
        dialog="Default limits of keys"
        limits={workspace.defaultLimits}
        perSecond={workspace.defaultRateLimitPerSecond}
        onChange={mayWrite && ((defaultLimits) => change({ defaultLimits }))}
      />
      <Quotas />
      <Signed />
    </Page>
  );
}

function WorkspaceFacts({ of: workspace }: { of: Workspace }) {
  const { defaultExpiration: seconds } = workspace;
  return (
    <Facts
      of={[
        ['Name', workspace.name],
        ['Id', <code>{workspace.id}</code>],
        ['Default prefix', workspace.defaultKeyPrefix ?? <None>key</None>],
        ['Keys expire after', seconds === undefined ? <None>never</None> : `${seconds} seconds`],
        ['Keys may come from', workspace.defaultAllowedIPs.join(', ') || <None>any address</None>],
        ['Addresses of refused calls', workspace.keepClientAddresses ? 'kept for a day' : 'not kept'],
        ['Time zone', workspace.timezone],
        ['Made', <Time at={workspace.createdAt} />],
      ]}
    />
  );
}

function Edit({ of, onChange }: { of: Workspace; onChange(what: Change): Promise<unknown> }) {
  const { name, defaultKeyPrefix, defaultRateLimitPerSecond, timezone } = of;
  const zones = 'Whose days and months statements have, e.g. Europe/Oslo.';
  return (
    <Ask
      text="Edit"
      look="main"
      title="Edit the workspace"
      submit="Save"
      fields={[
        { name: 'name', label: 'Name', required: true, maxLength: 128, value: name },
        {
          name: 'defaultKeyPrefix',
          label: 'Default prefix',
          clears: true,
          value: defaultKeyPrefix,
          hint: 'What secrets of keys begin with.',
        },
        {
          name: 'defaultRateLimitPerSecond',
          label: 'Requests per second of a key',
          as: 'number',
          min: '1',
          clears: true,
          value: defaultRateLimitPerSecond,
          hint: 'Where the key does not say. Empty: no limit.',
        },
        { name: 'timezone', label: 'Time zone', required: true, value: timezone, hint: zones },
      ]}
      onSubmit={onChange}
    />
  );
}

function Delete({ of: { id, name } }: { of: Workspace }) {
  const { route } = useLocation();
  const [typed, setTyped] = useState('');
  return (
    <AskDialog
      title="Delete the workspace"
      submit="Delete for good"
      isReady={typed === name}
      onSubmit={() => call('delete /api/v1/workspace/{id}', { id }).then(() => route('/console'))}
    >
      <p>All its keys are refused at once. Its books stay readable.</p>
      <Field name="name" label={`Type ${name} to delete it`} required onText={setTyped} />
    </AskDialog>
  );
}

function Quotas() {
  return (
    <Section title="Quota of the team">
      <Loaded of={useAnswer('get /api/v1/quota', {})}>
        {({ quota }) => (
          <Table
            label="Quota of the team"
            columns={quotaColumns}
            items={Object.entries(quota).map(([name, one]) => ({
              name: quotaNames[name] ?? name,
              limit: one.limit,
              used: 'used' in one ? one.used : undefined,
            }))}
            keyOf={({ name }) => name}
            empty=""
          />
        )}
      </Loaded>
    </Section>
  );
}

function Signed() {
  const { session } = useSession();
  return (
    <Section title="Signed in">
      <Facts
        of={[
          ['Token', session.tokenName],
          ['Until', <Time at={session.expiresAt} />],
          ['May', <span class="wide">{session.permissions.join(', ')}</span>],
        ]}
      />
    </Section>
  );
}
