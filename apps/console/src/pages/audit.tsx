import { useMemo } from 'preact/hooks';
import type { Input } from '../data/call.ts';
import { readItems, useAsked, useMay, useRead, type ItemOf } from '../data/hooks.ts';
import { Dialog, Opens } from '../parts/dialog.tsx';
import { Finder } from '../parts/form.tsx';
import { Page } from '../parts/page.tsx';
import { List } from '../parts/table.tsx';
import { Facts, Time } from '../parts/text.tsx';

type Line = ItemOf<'get /api/v1/audit-log'>;
type Find = Pick<Input<'get /api/v1/audit-log'>, 'outcome' | 'resourceId' | 'requestId' | 'from' | 'to'>;

/** Who changed what, and who was denied. */
export function Audit() {
  const [{ from, to, outcome, resourceId, requestId }] = useAsked();
  const wanted: Find = outcome === 'changed' || outcome === 'denied' ? { outcome } : {};
  return (
    <Page title="Audit log">
      <Finder
        fields={[
          { name: 'from', label: 'From the day (UTC)', as: 'date' },
          { name: 'to', label: 'To the day (UTC)', as: 'date' },
          { name: 'outcome', label: 'Outcome', options: [['', 'changed or denied'], 'changed', 'denied'], value: '' },
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
      <Details of={line} by={actorOf(line, names)} />
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
        { title: 'Of', width: '17rem', text: 'resourceId', link: pageOf },
        { title: 'By', text: (line) => actorOf(line, names) },
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
const things: Record<string, string> = { api_key: 'key', billing: 'customer', access_token: 'token' };

// In the words of people: `Rotated key`.
function wordsOf({ operation, resource, actor }: Line): string {
  const [method = '', path = ''] = operation.split(' ');
  if (actor === 'operator' && !path.startsWith('/')) return operation;
  const verb = deeds[path.split('/').at(-1) ?? ''] ?? verbs[method] ?? method;
  if (verb.includes(' ') && !verb.endsWith('to') && !verb.endsWith('of')) return verb;
  return `${verb} ${things[resource ?? ''] ?? resource?.replaceAll('_', ' ') ?? path.replace('/api/v1', '')}`;
}

function pageOf({ resource, resourceId }: Line) {
  const page = pages[resource ?? ''];
  return page && `${page}/${resourceId}`;
}

/** The names of the team's access tokens by id, where the session may read them. */
function useTokenNames(): ReadonlyMap<string, string> {
  const mayRead = useMay()('token:write');
  const { value } = useRead(async () => (mayRead ? readItems('get /api/v1/access-token', { limit: 200 }) : []), '');
  return useMemo(() => new Map(value?.map(({ id, name }) => [id, name])), [value]);
}

/** Whose token made a change, or the link of the portal by which a customer made it. */
function actorOf({ tokenId = '', operation, after = {} }: Line, names: ReadonlyMap<string, string>): string {
  if ('linkTokenId' in after || operation.endsWith(' /portal/session')) return 'a customer, by a portal link';
  return names.get(tokenId) ?? (tokenId || 'operator');
}

function Details({ of: line, by }: { of: Line; by: string }) {
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
          ['By', by],
          ['Token', line.tokenId && <code>{line.tokenId}</code>],
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
