import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { packRecord } from '../../../../shared/stores/records.ts';
import { blockBits } from '../../../../shared/values/ip.ts';
import { ALL_SHARDS } from '../../../../shared/values/key-text.ts';
import { batchesById } from '../batches.ts';
import type { Entry, Selection } from '../change.ts';

/** Loads the defaults of workspaces; every shard has a copy. */
export async function* loadWorkspaces(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<{ id: string; rate: number | null; ips: string[]; version: number }>(
    (after, limit) => sql`
    select id, default_rate_limit_per_second as rate, default_allowed_ips as ips, version
    from workspaces
    where ${'ids' in selection ? sql`id = any(${selection.ids}) and` : sql``} id > ${after}
    order by id limit ${limit}`,
  );
  for await (const workspaces of batches) {
    yield workspaces.flatMap(({ id, rate, ips, version }) => {
      const value = packRecord('workspace', {
        version,
        defaultRatePerSecond: rate ?? '',
        defaultAllowedIps: ips.map(blockBits).join(' '),
      });
      return copies(selection, { kind: 'workspace', id, workspaceId: id, field: 'd', value });
    });
  }
}

type WorkspaceField = Pick<Entry, 'kind' | 'id' | 'field' | 'value'> & { workspaceId: string };

/** One field of a workspace's hash, as an entry of each selected shard. */
export function copies(selection: Selection, { workspaceId, ...rest }: WorkspaceField): Entry[] {
  return ('shard' in selection ? [selection.shard] : ALL_SHARDS).map((shard) => ({
    ...rest,
    shard,
    key: keyspace.workspace(shard, workspaceId),
    lifetimeSeconds: 0,
  }));
}
