import type { Query } from '../../../shared/stores/postgres.ts';
import type { Change, EntityKind, Entry, Selection } from './change.ts';
import { loadBillings } from './loaders/billings.ts';
import { loadKeys, loadPointers } from './loaders/keys.ts';
import { loadScopes } from './loaders/scopes.ts';
import { loadTokens } from './loaders/tokens.ts';
import { loadWorkspaces } from './loaders/workspaces.ts';

/** The entries of some changed entities, and of the secrets that these very changes ended. */
export async function* loadChanged(sql: Query, changes: (Change & { id?: number })[]): AsyncGenerator<Entry[]> {
  for (const kind of kindsInOrder) {
    const ofKind = changes.filter((change) => change.kind === kind);
    if (ofKind.length === 0) continue;
    const ids = [...new Set(ofKind.map((change) => change.entityId))];
    const changeIds = ofKind.flatMap(({ id }) => (id === undefined ? [] : [id]));
    const loaded = loaders[kind](sql, { ids, changeIds });
    yield* kind === 'key' ? ofNamedShards(loaded, ofKind) : loaded;
  }
}

/** The entries of everything that an empty shard needs: what is gone is not among them. */
export async function* loadShard(sql: Query, shard: number): AsyncGenerator<Entry[]> {
  for (const kind of kindsInOrder) yield* loaders[kind](sql, { shard });
  yield* loadPointers(sql, { shard });
}

// Workspaces and scopes come before the keys that refer to them.
const kindsInOrder = ['token', 'workspace', 'scope', 'billing', 'key'] as const satisfies EntityKind[];
const loaders: Record<EntityKind, (sql: Query, selection: Selection) => AsyncGenerator<Entry[]>> = {
  token: loadTokens,
  workspace: loadWorkspaces,
  scope: loadScopes,
  billing: loadBillings,
  key: loadKeys,
};

/** A key that was imported may have a pointer in a second shard: either may be closed, and a change names what it wrote. */
async function* ofNamedShards(loaded: AsyncGenerator<Entry[]>, changes: Change[]): AsyncGenerator<Entry[]> {
  const named = new Set(changes.map(({ entityId, shard }) => `${entityId} ${shard}`));
  for await (const entries of loaded) {
    yield entries.filter(({ id, shard }) => named.has(`${id} ${shard}`) || named.has(`${id} null`));
  }
}
