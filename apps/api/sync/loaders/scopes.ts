import type { Query } from '../../../../shared/stores/postgres.ts';
import { packRecord, tombstone } from '../../../../shared/stores/records.ts';
import { batchesById } from '../batches.ts';
import type { Entry, Selection } from '../change.ts';
import { copies } from './workspaces.ts';

/** Loads scopes, which are fields of their workspace's hash; every shard has a copy. */
export async function* loadScopes(sql: Query, selection: Selection): AsyncGenerator<Entry[]> {
  const batches = batchesById<ScopeRow>(
    (after, limit) => sql`
    select id, workspace_id, ref, representation, version, deleted_at is not null as deleted
    from scopes
    where ${'ids' in selection ? sql`id = any(${selection.ids}) and` : sql``} id > ${after}
    order by id limit ${limit}`,
  );
  for await (const scopes of batches) {
    yield scopes.flatMap(({ id, workspaceId, ref, representation, version, deleted }) => {
      const value = deleted ? tombstone(version) : packRecord('scope', { version, representation, scopeId: id });
      return copies(selection, { kind: 'scope', id, workspaceId, field: `s${ref}`, value });
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
};
