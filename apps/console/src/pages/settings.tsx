import { useLocation } from 'preact-iso/router';
import { call, Problem, type Input } from '../data/call.ts';
import { useAnswer, useSession, useWorkspace } from '../data/hooks.ts';
import { Ask } from '../parts/dialog.tsx';
import { Limits } from '../parts/limits.tsx';
import { Page, Section } from '../parts/page.tsx';
import { Listed, type Column } from '../parts/table.tsx';
import { Facts, None, Time } from '../parts/text.tsx';

type Change = Omit<Input<'patch /api/v1/workspace/{id}'>, 'id'>;
type Quota = { name: string; limit: number; used?: number };

const quotaColumns: readonly Column<Quota>[] = [
  { title: 'Of', text: ({ name }) => quotaNames[name] ?? name, isMain: true },
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
  const { id, workspace } = useWorkspace();
  const { session } = useSession();
  const { defaultExpiration: seconds } = workspace;
  const change = (what: Change) => call('patch /api/v1/workspace/{id}', { id, ...what });
  return (
    <Page title="Settings" action={<Actions onChange={change} />}>
      <Facts
        of={[
          ['Name', workspace.name],
          ['Id', <code>{id}</code>],
          ['Default prefix', workspace.defaultKeyPrefix ?? <None>key</None>],
          ['Keys expire after', seconds === undefined ? <None>never</None> : `${seconds} seconds`],
          ['Keys may come from', workspace.defaultAllowedIPs.join(', ') || <None>any address</None>],
          ['Addresses of refused calls', workspace.keepClientAddresses ? 'kept for a day' : 'not kept'],
          ['Time zone', workspace.timezone],
          ['Made', <Time at={workspace.createdAt} />],
        ]}
      />
      <Limits
        title="Default limits of keys"
        limits={workspace.defaultLimits}
        perSecond={workspace.defaultRateLimitPerSecond}
        needs="workspace:write"
        read={async () => (await call('get /api/v1/workspace/{id}', { id })).workspace.defaultLimits}
        onChange={(defaultLimits) => change({ defaultLimits })}
      />
      <Listed
        title="Quota of the team"
        of={useAnswer('get /api/v1/quota', {})}
        items={({ quota }) => Object.entries(quota).map(([name, one]): Quota => ({ name, ...one }))}
        columns={quotaColumns}
      />
      <Section title="Signed in">
        <Facts
          of={[
            ['Token', session.tokenName],
            ['Until', <Time at={session.expiresAt} />],
            ['May', <span class="wide">{session.permissions.join(', ')}</span>],
          ]}
        />
      </Section>
    </Page>
  );
}

function Actions({ onChange }: { onChange(what: Change): Promise<unknown> }) {
  const { route } = useLocation();
  const { id, workspace } = useWorkspace();
  const { name, defaultKeyPrefix, defaultRateLimitPerSecond, timezone } = workspace;
  const zones = 'Whose days and months statements have, e.g. Europe/Oslo.';
  const rate = { as: 'number', min: '1', hint: 'Where the key does not say. Empty: no limit.' } as const;
  return (
    <>
      <Ask
        text="Edit"
        look="main"
        title="Edit the workspace"
        submit="Save"
        needs="workspace:write"
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
            clears: true,
            value: defaultRateLimitPerSecond,
            ...rate,
          },
          { name: 'timezone', label: 'Time zone', required: true, value: timezone, hint: zones },
        ]}
        onSubmit={onChange}
      />
      <Ask
        look="outline danger"
        title="Delete the workspace"
        submit="Delete for good"
        needs="workspace:write"
        fields={[{ name: 'name', label: `Type ${name} to delete it`, required: true }]}
        onSubmit={async (typed) => {
          if (typed.name !== name) throw Problem.of('That is not its name.');
          await call('delete /api/v1/workspace/{id}', { id });
          route('/console');
        }}
      >
        <p>All its keys are refused at once. Its books stay readable.</p>
      </Ask>
    </>
  );
}
