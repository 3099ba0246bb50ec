import { permissions } from '../../../../shared/contract/caller.ts';
import { call } from '../data/call.ts';
import { usePages, type ItemOf } from '../data/hooks.ts';
import { useSession, useWorkspace } from '../data/session.ts';
import { Ask, secretOf } from '../parts/dialog.tsx';
import { Page } from '../parts/page.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';
import { State } from '../parts/text.tsx';

type Token = ItemOf<'get /api/v1/access-token'>;

/** Who may call the API, and for what. */
export function Tokens() {
  const { session } = useSession();
  const columns: readonly Column<Token>[] = [
    {
      title: 'Name',
      width: '24%',
      isMain: true,
      below: 'maskedToken',
      cell: ({ id, name }) => (
        <span title={name}>
          {name}
          {id === session.tokenId && <span class="muted"> (yours)</span>}
        </span>
      ),
    },
    { title: 'Token', code: 'maskedToken', isExtra: true },
    { title: 'May', text: ({ permissions: may }) => may.join(', '), isExtra: true },
    { title: 'Last used', time: 'lastUsedAt', isExtra: true },
    { title: 'State', width: '6.5rem', cell: (token) => <TokenState of={token} /> },
    { title: 'Revoke', width: '6.5rem', cell: (token) => !token.revoked && <Revoke of={token} /> },
  ];
  return (
    <Page title="Tokens" action={<NewToken />}>
      <p class="muted">
        Access tokens of the team, for its programs and people. Each may do at most what its maker may.
      </p>
      <PagedTable
        label="Access tokens"
        columns={columns}
        pages={usePages('get /api/v1/access-token', { limit: 200 })}
        empty="No token that you may see. Make one for a program, with no more rights than it needs."
      />
    </Page>
  );
}

function TokenState({ of: { revoked, expiresAt } }: { of: Token }) {
  if (revoked) return <State kind="bad">Revoked</State>;
  if (expiresAt !== undefined && expiresAt <= Date.now()) return <State kind="bad">Expired</State>;
  return <State kind="good">In force</State>;
}

function Revoke({ of: { id, name } }: { of: Token }) {
  return (
    <Ask
      text="Revoke"
      look="outline small"
      label={`Revoke ${name}`}
      title="Revoke the token"
      submit="Revoke for good"
      fields={[{ name: 'descendants', label: 'Also the tokens that it made', as: 'check', value: true }]}
      onSubmit={(given) => call('delete /api/v1/access-token/{id}', { id, ...given })}
    >
      <p>
        Within a second nothing takes <strong>{name}</strong> any more, and its sessions end.
      </p>
    </Ask>
  );
}

function NewToken() {
  const { session } = useSession();
  const { id, name } = useWorkspace();
  const rights = permissions.filter((one) => session.permissions.includes(one)).map((one) => [one, one] as const);
  const mayAll = session.workspaceIds === undefined;
  return (
    <Ask
      look="main"
      title="New token"
      submit="Create token"
      fields={[
        { name: 'name', label: 'Name', required: true, maxLength: 128 },
        { name: 'permissions', label: 'May', as: 'ticks', options: rights },
        ...(mayAll ? ([{ name: 'limited', label: `Only in ${name}`, as: 'check', value: true }] as const) : []),
        { name: 'expiresAt', label: 'Expires', as: 'moment', hint: 'In your time zone. Empty: never.' },
      ]}
      onSubmit={({ limited, ...given }) => {
        const workspaces = !mayAll || limited ? { workspaceIds: [id] } : {};
        return call('post /api/v1/access-token', { ...given, ...workspaces });
      }}
      shows={({ accessToken }) => secretOf('The new token', 'Access token', accessToken.token)}
    />
  );
}
