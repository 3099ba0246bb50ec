import { useLocation } from 'preact-iso/router';
import { call, wrong, type Input } from '../data/call.ts';
import { useAnswer, useSession, useWorkspace } from '../data/hooks.ts';
import { Ask } from '../parts/dialog.tsx';
import { limitKind } from '../parts/limits.tsx';
import { OwnList } from '../parts/own-list.tsx';
import { Page } from '../parts/page.tsx';
import { Listed, type Column } from '../parts/table.tsx';
import { Facts, None, Time } from '../parts/text.tsx';

type Change = Omit<Input<'patch /api/v1/workspace/{id}'>, 'id'>;
type Quota = { name: string; limit: number; used?: number };

// Where the name of a quota does not say what it is.
const names: Record<string, string> = { billingRecords: 'customers', keptAnswerBytes: 'bytes of stored replies' };
const quotaColumns: readonly Column<Quota>[] = [
  { title: 'Of', text: ({ name }) => names[name] ?? name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`) },
  { title: 'Used', amount: 'used' },
  { title: 'At most', amount: 'limit' },
];

/** The workspace's defaults, the team's quota, and what the session may do, and until when. */
export function Settings() {
  const { id, workspace } = useWorkspace();
  const { session } = useSession();
  const seconds = workspace.defaultExpiration;
  const change = (what: Change) => call('patch /api/v1/workspace/{id}', { id, ...what });
  const { route } = useLocation();
  const { name, defaultKeyPrefix, defaultRateLimitPerSecond: value, timezone, branding } = workspace;
  const begins = { value: defaultKeyPrefix, hint: 'What secrets of keys begin with.' };
  const zones = 'Whose days and months statements have, e.g. Europe/Oslo.';
  const rate = { as: 'number', min: '1', value, hint: 'Where the key does not say. Empty: no limit.' } as const;
  const actions = (
    <>
      <Ask
        does="Edit"
        one="workspace"
        look="main"
        needs="workspace:write"
        fields={[
          { name: 'name', label: 'Name', required: true, maxLength: 128, value: name },
          { name: 'defaultKeyPrefix', label: 'Default prefix', clears: true, ...begins },
          { name: 'defaultRateLimitPerSecond', label: 'Requests per second of a key', clears: true, ...rate },
          { name: 'timezone', label: 'Time zone', required: true, value: timezone, hint: zones },
        ]}
        onSubmit={change}
      />
      <Ask
        does="Edit"
        one="portal"
        text="How the portal looks"
        needs="workspace:write"
        fields={[
          { name: 'name', label: 'Your name', clears: true, maxLength: 80, value: branding?.name },
          { name: 'color', label: 'Colour', clears: true, value: branding?.color, placeholder: '#0b7285' },
        ]}
        onSubmit={async ({ name, color }) => {
          const { logo } = (await call('get /api/v1/workspace/{id}', { id })).workspace.branding ?? {};
          return change({ branding: { ...(name && { name }), ...(color && { color }), ...(logo && { logo }) } });
        }}
        says="A logo is set by the API, as branding.logo."
      />
      <Ask
        does="Delete"
        one="workspace"
        text="Delete the workspace"
        needs="workspace:write"
        fields={[{ name: 'name', label: `Type ${name} to delete it`, required: true }]}
        onSubmit={async (typed) => {
          if (typed.name !== name) throw wrong('That is not its name.');
          await call('delete /api/v1/workspace/{id}', { id });
          route('/console');
        }}
        says="All its keys are refused at once. Its books stay readable."
      />
    </>
  );
  return (
    <Page title="Settings" action={actions}>
      <Facts
        of={[
          ['Name', name],
          ['Id', <code>{id}</code>],
          ['Default prefix', defaultKeyPrefix ?? <None>key</None>],
          ['Keys expire after', seconds === undefined ? <None>never</None> : `${seconds} seconds`],
          ['Requests per second of a key', value ?? <None>no limit</None>],
          ['Keys may come from', workspace.defaultAllowedIPs.join(', ') || <None>any address</None>],
          ['Addresses of refused calls', workspace.keepClientAddresses ? 'kept for a day' : 'not kept'],
          ['Time zone', timezone],
          ['Created', <Time at={workspace.createdAt} />],
        ]}
      />
      <OwnList
        title="Default limits of keys"
        of={limitKind}
        items={workspace.defaultLimits}
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
      <p class="muted">
        Signed in until <Time at={session.expiresAt} />. The token may: {session.permissions.join(', ')}.
      </p>
    </Page>
  );
}
