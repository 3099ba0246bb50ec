import type { Query } from '../../../../shared/stores/postgres.ts';
import { packRecord, tombstone } from '../../../../shared/stores/records.ts';
import { scopeMark } from '../../../../shared/stores/scope-mark.ts';
import { batchesById } from '../batches.ts';
import { LEAVES, type Entry, type Selection } from '../change.ts';
import { copies } from './workspaces.ts';

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
