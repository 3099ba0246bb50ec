import type { Limit } from '../../../../shared/contract/limits.ts';
import type { Alert } from '../../../../shared/contract/alerts.ts';
import { packDefaultAlerts } from '../../../../shared/stores/account-settings.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { withOwnLimits } from '../../../../shared/stores/limits.ts';
import { packRecord, tombstone } from '../../../../shared/stores/records.ts';
import { ALL_SHARDS, shardOf } from '../../../../shared/values/key-text.ts';
import { batchesById } from '../batches.ts';
import { LEAVES, type Entry, type Selection } from '../change.ts';
import { packedAlerts } from './billings.ts';
import { ownList, withLists, type OwnList } from './keys.ts';
import { scopeMark } from '../../../../shared/stores/scope-mark.ts';

/**
 * Loads the defaults of workspaces, of which every shard has a copy, and their lists of addresses, which one shard has. The tombstone of a deleted one stays in their place for as
 * long as a shard may hold one of its keys: verify.lua refuses a key by it.
 */
export async function* loadWorkspaces(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<WorkspaceRow>(
    (after, limit) => sql`
    select id, default_rate_limit_per_second as rate, default_limits as limits, default_allowed_ips as ips, default_alerts as alerts, version,
           deleted_at is not null as deleted, removed_at is not null as removed
    from workspaces
    where ${'ids' in selection ? sql`id = any(${selection.ids})` : sql`deleted_at is null`} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const workspaces of batches) {
    const lists: OwnList[] = [];
    const records = workspaces.flatMap(({ id, rate, limits, ips, alerts, version, deleted, removed }) => {
      const addresses = deleted ? [] : ips;
      const list = ownList({ kind: 'workspace', id, shard: shardOf(id), version, addresses });
      // A workspace that was never changed has had no other list.
      if (addresses.length > 0 || version > 1) lists.push(list);
      const defaultRatePerSecond = withOwnLimits(rate ?? '', limits);
      const record = { version, defaultRatePerSecond, defaultAddressList: list.name };
      const packed = packRecord('workspace', record) + packDefaultAlerts(packedAlerts(alerts ?? []));
      const value = deleted ? tombstone(version) : packed;
      const lifetimeSeconds = removed ? LEAVES : 0;
      return copies(selection, { kind: 'workspace', id, workspaceId: id, field: 'd', value, lifetimeSeconds });
    });
    yield* withLists(selection, lists, records);
  }
}

type WorkspaceRow = {
  id: string;
  rate: number | null;
  limits: Limit[] | null;
  ips: string[];
  alerts: Alert[] | null;
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

/**
 * Loads scopes, which are fields of their workspace's hash; every shard has a copy. A field can't expire, so the tombstone of
 * a deleted scope stays until the scope is loaded again to leave (remove-deleted.ts).
 */
export async function* loadScopes(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<ScopeRow>(
    (after, limit) => sql`
    select s.id, s.workspace_id, s.ref, s.representation, s.version, s.deleted_at is not null as deleted,
           s.removed_at is not null as removed
    from scopes s join workspaces w on w.id = s.workspace_id
    where ${'ids' in selection ? sql`s.id = any(${selection.ids})` : sql`s.deleted_at is null and w.deleted_at is null`}
      and s.id > ${after}
    order by s.id limit ${limit}`,
  );
  for await (const scopes of batches) {
    yield scopes.flatMap(({ id, workspaceId, ref, representation, version, deleted, removed }) => {
      const record = { version, representation, scopeId: id, mark: `#${scopeMark(representation)}` };
      const value = deleted ? tombstone(version) : packRecord('scope', record);
      const lifetimeSeconds = removed ? LEAVES : 0;
      return copies(selection, { kind: 'scope', id, workspaceId, field: `s${ref}`, value, lifetimeSeconds });
    });
  }
}

type ScopeRow = {
  id: string;
  workspaceId: string;
  ref: number;
  representation: string;
  version: number;
  deleted: boolean;
  removed: boolean;
};
