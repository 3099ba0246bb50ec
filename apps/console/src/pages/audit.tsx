import { useMemo } from 'preact/hooks';
import type { Input } from '../data/call.ts';
import { readItems, useAsked, useMay, useRead, type ItemOf } from '../data/hooks.ts';
import { Dialog, Opens } from '../parts/dialog.tsx';
import { Finder } from '../parts/form.tsx';
import { Page } from '../parts/page.tsx';
import { List } from '../parts/table.tsx';
import { Facts, PageLink, Time } from '../parts/text.tsx';

type Line = ItemOf<'get /api/v1/audit-log'>;
type Find = Pick<Input<'get /api/v1/audit-log'>, 'outcome' | 'resourceId' | 'requestId' | 'from' | 'to'>;

const outcomes = [['', 'changed or denied'], 'changed', 'denied'] as const;

/** Who changed what, and who was denied. */
export function Audit() {
  const [{ from, to, outcome, resourceId, requestId }] = useAsked();
  const wanted: Find = outcome === 'changed' || outcome === 'denied' ? { outcome } : {};
  return (
    <Page title="Audit log">
      <Finder
        fields={[
          { name: 'from', label: 'From the day', as: 'date' },
          { name: 'to', label: 'To the day', as: 'date' },
          { name: 'outcome', label: 'Outcome', options: outcomes, value: '' },
          { name: 'resourceId', label: 'Id of what was changed' },
          { name: 'requestId', label: 'Request' },
        ]}
      />
      <AuditList find={{ from, to, resourceId, requestId, ...wanted }} />
    </Page>
  );
}

/** Lines of the audit log, the newest first. */
export function AuditList({ find }: { find: Find }) {
  const names = useTokenNames();
  const opened = (line: Line) => (
    <Opens text={wordsOf(line)} look="link" title={line.operation}>
      <Details of={line} by={names.get(line.tokenId ?? '')} />
    </Opens>
  );
  return (
    <List
      label="Audit log"
      of="get /api/v1/audit-log"
      input={{ limit: 200, order: 'newest', ...find }}
      columns={[
        { title: 'When', width: '11rem', time: 'createdAt' },
        { title: 'What', width: '33%', cell: opened },
        { title: 'Of', width: '17rem', cell: (line) => <Thing of={line} /> },
        { title: 'By', cell: (line) => <Actor of={line} name={names.get(line.tokenId ?? '')} /> },
        { title: 'Outcome', width: '7rem', state: ({ outcome }) => [outcome === 'denied' ? 'bad' : 'good', outcome] },
      ]}
      empty="No line fits. Choose other days, or fewer conditions."
    />
  );
}

const verbs: Record<string, string> = { POST: 'Created', PATCH: 'Changed', DELETE: 'Deleted', PUT: 'Changed' };
// What the last part of an operation's path says better than its method does.
const deeds: Record<string, string> = {
  rotate: 'Rotated',
  refill: 'Added credits to',
  grant: 'Granted credits',
  adjustment: 'Corrected usage',
  void: 'Voided',
  'earlier-secrets': 'Ended the old secret of',
  import: 'Imported',
  leaked: 'Disabled after a leak',
  session: 'Opened',
};
const pages: Record<string, string> = { api_key: 'keys', billing: 'customers', webhook: 'webhooks' };

// In the words of people: `Rotated key`.
function wordsOf({ operation, resource, actor }: Line): string {
  const [method = '', path = ''] = operation.split(' ');
  if (actor === 'operator' && !path.startsWith('/')) return operation;
  const verb = deeds[path.split('/').at(-1) ?? ''] ?? verbs[method] ?? method;
  if (verb.includes(' ') && !verb.endsWith('to') && !verb.endsWith('of')) return verb;
  const things: Record<string, string> = { api_key: 'key', billing: 'customer', access_token: 'token' };
  return `${verb} ${things[resource ?? ''] ?? resource?.replaceAll('_', ' ') ?? path.replace('/api/v1', '')}`;
}

function Thing({ of: { resource, resourceId } }: { of: Line }) {
  const page = pages[resource ?? ''];
  const id = <code title={resourceId}>{resourceId}</code>;
  return page && resourceId ? <PageLink to={`${page}/${resourceId}`}>{id}</PageLink> : id;
}

/** The names of the team's access tokens by id, where the session may read them. */
function useTokenNames(): ReadonlyMap<string, string> {
  const mayRead = useMay()('token:write');
  const { value } = useRead(async () => (mayRead ? readItems('get /api/v1/access-token', { limit: 200 }) : []), '');
  return useMemo(() => new Map(value?.map(({ id, name }) => [id, name])), [value]);
}

/** Whose token made a change, or the link of the portal by which a customer made it. */
function Actor({ of: { tokenId, operation, after }, name }: { of: Line; name: string | undefined }) {
  const link = (after as { linkTokenId?: string } | undefined)?.linkTokenId;
  if (link !== undefined || operation.endsWith(' /portal/session')) {
    return <span title={link}>a customer, by a portal link</span>;
  }
  return name === undefined ? (
    <code title={tokenId}>{tokenId ?? 'operator'}</code>
  ) : (
    <span title={tokenId}>{name}</span>
  );
}

function Details({ of: line, by }: { of: Line; by: string | undefined }) {
  const { outcome, errorCode, attempts = 1, before = {}, after = {} } = line;
  const differences = Object.keys({ ...before, ...after }).flatMap((name) => {
    const [was, is] = [before[name], after[name]].map((value) => JSON.stringify(value) ?? 'nothing');
    return was === is ? [] : [[name, `${was} → ${is}`] as const];
  });
  return (
    <Dialog title={line.operation}>
      <Facts
        of={[
          ['When', <Time at={line.createdAt} />],
          ['Outcome', errorCode === undefined ? outcome : `${outcome} with ${errorCode}, ${attempts} times`],
          ['Of', <code>{line.resourceId ?? 'nothing'}</code>],
          ['By', <Actor of={line} name={by} />],
          ['From', line.address ?? 'unknown'],
          ['With', line.userAgent ?? 'unknown'],
          ['Request', <code>{line.requestId ?? 'none'}</code>],
        ]}
      />
      {differences.length > 0 && <h2>What changed</h2>}
      <Facts of={differences} />
    </Dialog>
  );
}
