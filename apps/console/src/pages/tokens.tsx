import { useState } from 'preact/hooks';
import { permissions, type Permission } from '../../../../shared/contract/caller.ts';
import { call, type Output } from '../data/call.ts';
import { usePages } from '../data/hooks.ts';
import { useSession, useWorkspace } from '../data/session.ts';
import { Check, Dialog, Field, Form, momentOf } from '../parts/form.tsx';
import { Page } from '../parts/page.tsx';
import { PagedTable, type Column } from '../parts/table.tsx';
import { Secret, State, Time } from '../parts/text.tsx';

type Token = Output<'get /api/v1/access-token'>['accessTokens'][number];

/** Who may call the API, and for what. */
export function Tokens() {
  const { session } = useSession();
  const [isMaking, setMaking] = useState(false);
  const [revoked, setRevoked] = useState<Token>();
  const { reload, ...pages } = usePages(async (cursor, signal) => {
    const page = await call('get /api/v1/access-token', { limit: 200, ...(cursor && { cursor }) }, signal);
    return { items: page.accessTokens, nextCursor: page.nextCursor };
  }, []);
  const columns: readonly Column<Token>[] = [
    {
      title: 'Name',
      width: '24%',
      isMain: true,
      below: ({ maskedToken }) => maskedToken,
      cell: ({ id, name }) => (
        <span title={name}>
          {name}
          {id === session.tokenId && <span class="muted"> (yours)</span>}
        </span>
      ),
    },
    { title: 'Token', cell: ({ maskedToken }) => <code>{maskedToken}</code>, isExtra: true },
    {
      title: 'May',
      cell: ({ permissions: may }) => <span title={may.join(', ')}>{may.join(', ')}</span>,
      isExtra: true,
    },
    { title: 'Last used', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} />, isExtra: true },
    { title: 'State', width: '6.5rem', cell: (token) => <TokenState of={token} /> },
    {
      title: 'Revoke',
      width: '6.5rem',
      cell: (token) =>
        !token.revoked && (
          <button
            type="button"
            class="outline small"
            aria-label={`Revoke ${token.name}`}
            onClick={() => setRevoked(token)}
          >
            Revoke
          </button>
        ),
    },
  ];
  return (
    <Page
      title="Tokens"
      action={
        <button type="button" onClick={() => setMaking(true)}>
          New token
        </button>
      }
    >
      <p class="muted">
        Access tokens of the team, for its programs and people. Each may do at most what its maker may.
      </p>
      <PagedTable
        label="Access tokens"
        columns={columns}
        pages={pages}
        keyOf={({ id }) => id}
        empty="No token that you may see. Make one for a program, with no more rights than it needs."
      />
      {isMaking && <NewToken onClose={() => setMaking(false)} onMade={reload} />}
      {revoked && <Revoke token={revoked} onClose={() => setRevoked(undefined)} onRevoked={reload} />}
    </Page>
  );
}

function TokenState({ of: { revoked, expiresAt } }: { of: Token }) {
  if (revoked) return <State kind="bad">Revoked</State>;
  if (expiresAt !== undefined && expiresAt <= Date.now()) return <State kind="bad">Expired</State>;
  return <State kind="good">In force</State>;
}

function Revoke({ token, onClose, onRevoked }: { token: Token; onClose(): void; onRevoked(): void }) {
  return (
    <Dialog title="Revoke the token" onClose={onClose}>
      <Form
        submit="Revoke for good"
        onSubmit={async (_, form) => {
          await call('delete /api/v1/access-token/{id}', { id: token.id, descendants: form.has('descendants') });
          onClose();
          onRevoked();
        }}
      >
        <p>
          Within a second nothing takes <strong>{token.name}</strong> any more, and its sessions end.
        </p>
        <Check label="Also the tokens that it made" name="descendants" checked />
      </Form>
    </Dialog>
  );
}

function NewToken({ onClose, onMade }: { onClose(): void; onMade(): void }) {
  const { session } = useSession();
  const workspace = useWorkspace();
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <Dialog title="The new token" onClose={onClose}>
        <Secret label="Access token" text={secret} />
      </Dialog>
    );
  }
  const mayAll = session.workspaceIds === undefined;
  return (
    <Dialog title="New token" onClose={onClose}>
      <Form
        submit="Create token"
        onSubmit={async (value, form) => {
          const expiresAt = momentOf(value('expiresAt'));
          const isLimited = !mayAll || form.has('limited');
          const { accessToken } = await call('post /api/v1/access-token', {
            name: value('name'),
            permissions: form.getAll('permission') as Permission[],
            ...(isLimited && { workspaceIds: [workspace.id] }),
            ...(expiresAt !== undefined && { expiresAt }),
          });
          setSecret(accessToken.token);
          onMade();
        }}
      >
        <Field label="Name" name="name" required maxLength={128} />
        <fieldset>
          <legend>May</legend>
          <div class="choices">
            {permissions
              .filter((one) => session.permissions.includes(one))
              .map((one) => (
                <label key={one} class="check">
                  <input type="checkbox" name="permission" value={one} /> <code>{one}</code>
                </label>
              ))}
          </div>
        </fieldset>
        {mayAll && <Check label={`Only in ${workspace.name}`} name="limited" checked />}
        <Field label="Expires" name="expiresAt" type="datetime-local" hint="In your time zone. Empty: never." />
      </Form>
    </Dialog>
  );
}
