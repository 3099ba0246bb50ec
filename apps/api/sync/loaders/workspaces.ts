import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { packRecord, tombstone } from '../../../../shared/stores/records.ts';
import { blockBits } from '../../../../shared/values/ip.ts';
import { ALL_SHARDS } from '../../../../shared/values/key-text.ts';
import { batchesById } from '../batches.ts';
import { LEAVES, type Entry, type Selection } from '../change.ts';

/**
 * Loads the defaults of workspaces; every shard has a copy. The tombstone of a deleted one stays in their place for as
 * long as a shard may hold one of its keys: verify.lua refuses a key by it.
 */
export async function* loadWorkspaces(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<WorkspaceRow>(
    (after, limit) => sql`
    select id, default_rate_limit_per_second as rate, default_allowed_ips as ips, version,
           deleted_at is not null as deleted, removed_at is not null as removed
    from workspaces
    where ${'ids' in selection ? sql`id = any(${selection.ids})` : sql`deleted_at is null`} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const workspaces of batches) {
    yield workspaces.flatMap(({ id, rate, ips, version, deleted, removed }) => {
      const record = { version, defaultRatePerSecond: rate ?? '', defaultAllowedIps: ips.map(blockBits).join(' ') };
      const value = deleted ? tombstone(version) : packRecord('workspace', record);
      const lifetimeSeconds = removed ? LEAVES : 0;
      return copies(selection, { kind: 'workspace', id, workspaceId: id, field: 'd', value, lifetimeSeconds });
    });
  }
}

type WorkspaceRow = {
  id: string;
  rate: number | null;
  ips: string[];
  version: number;
  deleted: boolean;
  removed: boolean;
};
type WorkspaceField = Omit<Entry, 'shard' | 'key'> & { workspaceId: string };

/** One field of a workspace's hash, as an entry of each selected shard. */
export function copies(selection: Selection, { workspaceId, ...rest }: WorkspaceField): Entry[] {
  return ('shard' in selection ? [selection.shard] : ALL_SHARDS).map((shard) => ({
    ...rest,
    shard,
    key: keyspace.workspace(shard, workspaceId),
  }));
}
