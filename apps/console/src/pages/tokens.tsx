import { permissions } from '../../../../shared/contract/caller.ts';
import { call } from '../data/call.ts';
import { useSession, useWorkspace, type ItemOf } from '../data/hooks.ts';
import { Ask } from '../parts/dialog.tsx';
import { Page } from '../parts/page.tsx';
import { List } from '../parts/table.tsx';
import type { Standing } from '../parts/text.tsx';
import { stateUntil } from './keys/api-key.ts';

type Token = ItemOf<'get /api/v1/access-token'>;

/** Who may call the API, and for what. */
export function Tokens() {
  const { session, isOfTeam } = useSession();
  const { id, workspace } = useWorkspace();
  const rights = permissions.filter((one) => session.permissions.includes(one));
  const limited = { name: 'limited', label: `Only in ${workspace.name}`, as: 'check', value: true } as const;
  const make = (
    <Ask
      does="New"
      one="token"
      fields={[
        { name: 'name', label: 'Name', required: true, maxLength: 128 },
        { name: 'permissions', label: 'Permissions', as: 'ticks', options: rights },
        ...(isOfTeam ? [limited] : []),
        { name: 'expiresAt', label: 'Expires', as: 'moment', hint: 'In your time zone. Empty: never.' },
      ]}
      onSubmit={({ limited, ...given }) => {
        const workspaces = !isOfTeam || limited ? { workspaceIds: [id] } : {};
        return call('post /api/v1/access-token', { ...given, ...workspaces });
      }}
      shows={({ accessToken }) => ({ title: 'The new token', label: 'Access token', text: accessToken.token })}
    />
  );
  const nameOf = ({ id, name }: Token) => `${name}${id === session.tokenId ? ' (yours)' : ''}`;
  return (
    <Page title="Tokens" action={make}>
      <p class="muted">
        Access tokens of the team, for its programs and people. Each may do at most what its maker may.
      </p>
      <List
        label="Access tokens"
        of="get /api/v1/access-token"
        input={{ limit: 200 }}
        columns={[
          { title: 'Name', width: '24%', text: nameOf },
          { title: 'Token', code: 'maskedToken' },
          { title: 'Permissions', text: ({ permissions: may }) => may.join(', ') },
          { title: 'Last used', width: '8rem', time: 'lastUsedAt', isAgo: true },
          { title: 'State', width: '6.5rem', state: stateOf },
          { title: 'Revoke', width: '6.5rem', cell: revoke },
        ]}
        empty="No token that you may see. Make one for a program, with no more rights than it needs."
      />
    </Page>
  );
}

const stateOf = ({ revoked, expiresAt }: Token): Standing =>
  revoked ? ['bad', 'Revoked'] : stateUntil(expiresAt, 'Active');

function revoke({ id, name, revoked }: Token) {
  if (revoked) return null;
  const descendants = { name: 'descendants', label: 'Also the tokens that it made', as: 'check', value: true } as const;
  return (
    <Ask
      does="Revoke"
      one="token"
      row={name}
      fields={[descendants]}
      onSubmit={(given) => call('delete /api/v1/access-token/{id}', { id, ...given })}
      says={`Within a second nothing takes ${name} any more, and its sessions end.`}
    />
  );
}
