import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { call } from '../data/call.ts';
import { useRead } from '../data/hooks.ts';
import { useMay, useSession, useWorkspace, useWorkspaceChange, type Workspace } from '../data/session.ts';
import { Dialog, Field, Form } from '../parts/form.tsx';
import { LimitsForm, LimitsTable } from '../parts/limits.tsx';
import { Page } from '../parts/page.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Amount, Facts, ProblemNote, Time } from '../parts/text.tsx';

type Quota = { name: string; limit: number; used: number | undefined };

const quotaColumns: readonly Column<Quota>[] = [
  { title: 'Of', cell: ({ name }) => name, isMain: true },
  { title: 'Used', cell: ({ used }) => (used === undefined ? '' : <Amount of={used} />), isNumber: true },
  { title: 'At most', cell: ({ limit }) => <Amount of={limit} />, isNumber: true },
];
const quotaNames: Record<string, string> = {
  workspaces: 'workspaces',
  keys: 'keys',
  scopes: 'scopes',
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
  const may = useMay();
  const workspace = useWorkspace();
  const onChanged = useWorkspaceChange();
  const [doing, setDoing] = useState<'edit' | 'limits' | 'delete'>();
  const close = () => setDoing(undefined);
  const mayWrite = may('workspace:write');
  return (
    <Page
      title="Settings"
      action={
        mayWrite && (
          <>
            <button type="button" onClick={() => setDoing('edit')}>
              Edit
            </button>
            <button type="button" class="outline danger" onClick={() => setDoing('delete')}>
              Delete the workspace
            </button>
          </>
        )
      }
    >
      <WorkspaceFacts of={workspace} />
      <section>
        <header class="page">
          <h2>Default limits of keys</h2>
          {mayWrite && (
            <button type="button" class="outline" onClick={() => setDoing('limits')}>
              Change limits
            </button>
          )}
        </header>
        <LimitsTable limits={workspace.defaultLimits ?? []} perSecond={workspace.defaultRateLimitPerSecond} />
      </section>
      <Quotas />
      <Signed />
      {doing === 'edit' && (
        <Edit
          of={workspace}
          onClose={close}
          onSaved={(saved) => {
            onChanged(saved);
            close();
          }}
        />
      )}
      {doing === 'limits' && (
        <Dialog title="Default limits of keys" onClose={close}>
          <LimitsForm
            limits={workspace.defaultLimits ?? []}
            onSubmit={async (limits) => {
              const defaultLimits = limits.length > 0 ? limits : null;
              onChanged((await call('patch /api/v1/workspace/{id}', { id: workspace.id, defaultLimits })).workspace);
              close();
            }}
          />
        </Dialog>
      )}
      {doing === 'delete' && <Delete of={workspace} onClose={close} />}
    </Page>
  );
}

function WorkspaceFacts({ of: workspace }: { of: Workspace }) {
  return (
    <Facts
      of={[
        ['Name', workspace.name],
        ['Id', <code>{workspace.id}</code>],
        ['Default prefix', workspace.defaultKeyPrefix ?? <span class="muted">key</span>],
        [
          'Keys expire after',
          workspace.defaultExpiration === undefined ? (
            <span class="muted">never</span>
          ) : (
            `${workspace.defaultExpiration} seconds`
          ),
        ],
        ['Keys may come from', workspace.defaultAllowedIPs.join(', ') || <span class="muted">any address</span>],
        ['Addresses of refused calls', workspace.keepClientAddresses ? 'kept for a day' : 'not kept'],
        ['Time zone', workspace.timezone],
        ['Made', <Time at={workspace.createdAt} />],
      ]}
    />
  );
}

function Edit({
  of: workspace,
  onClose,
  onSaved,
}: {
  of: Workspace;
  onClose(): void;
  onSaved(workspace: Workspace): void;
}) {
  return (
    <Dialog title="Edit the workspace" onClose={onClose}>
      <Form
        submit="Save"
        onSubmit={async (value) => {
          const answer = await call('patch /api/v1/workspace/{id}', {
            id: workspace.id,
            name: value('name'),
            defaultKeyPrefix: value('prefix') || null,
            timezone: value('timezone'),
            defaultRateLimitPerSecond: value('perSecond') === '' ? null : Number(value('perSecond')),
          });
          onSaved(answer.workspace);
        }}
      >
        <Field label="Name" name="name" required maxLength={128} value={workspace.name} />
        <Field
          label="Default prefix"
          name="prefix"
          value={workspace.defaultKeyPrefix ?? ''}
          hint="What secrets of keys begin with."
        />
        <Field
          label="Requests per second of a key"
          name="perSecond"
          type="number"
          min="1"
          value={workspace.defaultRateLimitPerSecond ?? ''}
          hint="Where the key does not say. Empty: no limit."
        />
        <Field
          label="Time zone"
          name="timezone"
          required
          value={workspace.timezone}
          hint="Whose days and months statements have, e.g. Europe/Oslo."
        />
      </Form>
    </Dialog>
  );
}

function Delete({ of: { id, name }, onClose }: { of: Workspace; onClose(): void }) {
  const { route } = useLocation();
  const [typed, setTyped] = useState('');
  return (
    <Dialog title="Delete the workspace" onClose={onClose}>
      <Form
        submit="Delete for good"
        isReady={typed === name}
        onSubmit={async () => {
          await call('delete /api/v1/workspace/{id}', { id });
          route('/console');
        }}
      >
        <p>All its keys are refused at once. Its books stay readable.</p>
        <Field
          label={`Type ${name} to delete it`}
          name="name"
          required
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </Form>
    </Dialog>
  );
}

function Quotas() {
  const { value, problem } = useRead((signal) => call('get /api/v1/quota', {}, signal), []);
  const rows = Object.entries(value?.quota ?? {}).map(([name, one]) => ({
    name: quotaNames[name] ?? name,
    limit: one.limit,
    used: 'used' in one ? one.used : undefined,
  }));
  return (
    <section>
      <h2>Quota of the team</h2>
      <ProblemNote problem={problem} />
      {value && (
        <Table label="Quota of the team" columns={quotaColumns} items={rows} keyOf={({ name }) => name} empty="" />
      )}
    </section>
  );
}

function Signed() {
  const { session } = useSession();
  return (
    <section>
      <h2>Signed in</h2>
      <Facts
        of={[
          ['Token', session.tokenName],
          ['Until', <Time at={session.expiresAt} />],
          ['May', <span class="wide">{session.permissions.join(', ')}</span>],
        ]}
      />
    </section>
  );
}
