import { packToken } from '../../../shared/auth/access-token.ts';
import { creditLimit, formatCredits } from '../../../shared/values/credits.ts';
import { blockBits } from '../../../shared/values/ip.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { flagCharacter, packRecord, tombstone } from '../../../shared/stores/records.ts';
import { inBatches } from './batches.ts';

export type ChangeKind = 'token' | 'workspace' | 'scope' | 'key' | 'billing';
/** An entity of Postgres whose copy in Redis is to follow, or an adjustment; a null shard means a copy in every shard. */
export type Change = { kind: ChangeKind | 'adjustment'; entityId: string; shard: number | null };

/** One versioned value in Redis: a field of a hash, or a plain string, and for how many seconds it stays (0: forever). */
export type Entry = {
  kind: ChangeKind;
  id: string;
  shard: number;
  key: string;
  field: string;
  value: string;
  lifetimeSeconds: number;
};

/** Which rows are loaded: the named ones, or all that live in a shard. */
type Which = { ids: string[] } | { shard: number };

// A tombstone outlives by far every writer that could come late: an apply script refuses to run after its deadline.
const TOMBSTONE_SECONDS = 86_400;

/** The entries of some changed entities. */
export async function* loadChanged(sql: Query, changes: Change[]): AsyncGenerator<Entry[]> {
  for (const kind of kindsInOrder) {
    const ids = changes.filter((change) => change.kind === kind).map((change) => change.entityId);
    if (ids.length > 0) yield* loaders[kind](sql, { ids: [...new Set(ids)] });
  }
}

/** The entries of everything that lives in a shard. */
export async function* loadShard(sql: Query, shard: number): AsyncGenerator<Entry[]> {
  for (const kind of kindsInOrder) yield* loaders[kind](sql, { shard });
}

type Loader = (sql: Query, which: Which) => AsyncGenerator<Entry[]>;
// Workspaces and scopes before the keys that point at them.
const kindsInOrder = ['token', 'workspace', 'scope', 'billing', 'key'] as const satisfies ChangeKind[];
const loaders: Record<ChangeKind, Loader> = {
  token: loadTokens,
  workspace: loadWorkspaces,
  scope: loadScopes,
  billing: loadBillings,
  key: loadKeys,
};

async function* loadTokens(sql: Query, which: Which): AsyncGenerator<Entry[]> {
  const rows = byId<TokenRow>(
    (after, limit) => sql`
    select id, team_id, hash, shard, permissions, workspace_ids, expires_at, version, revoked_at is not null as revoked
    from access_tokens
    where ${'ids' in which ? sql`id = any(${which.ids})` : sql`shard = ${which.shard}`} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const batch of rows) {
    yield batch.map((token) => {
      const caller = {
        tokenId: token.id,
        teamId: token.teamId,
        permissions: new Set(token.permissions),
        workspaceIds: token.workspaceIds ?? undefined,
      };
      return {
        kind: 'token' as const,
        id: token.id,
        shard: token.shard,
        key: keyspace.token(token.shard, token.hash),
        field: '',
        value: token.revoked ? tombstone(token.version) : packToken(token.version, caller, token.expiresAt),
        lifetimeSeconds: token.revoked ? TOMBSTONE_SECONDS : 0,
      };
    });
  }
}
type TokenRow = {
  id: string;
  teamId: string;
  hash: string;
  shard: number;
  permissions: string[];
  workspaceIds: string[] | null;
  expiresAt: number | null;
  version: number;
  revoked: boolean;
};

async function* loadWorkspaces(sql: Query, which: Which): AsyncGenerator<Entry[]> {
  const rows = byId<{ id: string; rate: number | null; ips: string[]; version: number }>(
    (after, limit) => sql`
    select id, default_rate_limit_per_second as rate, default_allowed_ips as ips, version
    from workspaces
    where ${'ids' in which ? sql`id = any(${which.ids}) and` : sql``} id > ${after}
    order by id limit ${limit}`,
  );
  for await (const batch of rows) {
    yield batch.flatMap(({ id, rate, ips, version }) =>
      inEachShard(
        which,
        { kind: 'workspace', id },
        id,
        'd',
        packRecord('workspace', {
          version,
          defaultRatePerSecond: rate ?? '',
          defaultAllowedIps: ips.map(blockBits).join(' '),
        }),
      ),
    );
  }
}

async function* loadScopes(sql: Query, which: Which): AsyncGenerator<Entry[]> {
  const rows = byId<ScopeRow>(
    (after, limit) => sql`
    select id, workspace_id, ref, representation, version, deleted_at is not null as deleted
    from scopes
    where ${'ids' in which ? sql`id = any(${which.ids}) and` : sql``} id > ${after}
    order by id limit ${limit}`,
  );
  for await (const batch of rows) {
    yield batch.flatMap(({ id, workspaceId, ref, representation, version, deleted }) =>
      inEachShard(
        which,
        { kind: 'scope', id },
        workspaceId,
        `s${ref}`,
        deleted ? tombstone(version) : packRecord('scope', { version, representation, scopeId: id }),
      ),
    );
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

function inEachShard(
  which: Which,
  entity: Pick<Entry, 'kind' | 'id'>,
  workspaceId: string,
  field: string,
  value: string,
): Entry[] {
  return ('shard' in which ? [which.shard] : ALL_SHARDS).map((shard) => ({
    ...entity,
    shard,
    key: keyspace.workspace(shard, workspaceId),
    field,
    value,
    lifetimeSeconds: 0,
  }));
}

async function* loadBillings(sql: Query, which: Which): AsyncGenerator<Entry[]> {
  const rows = byId<BillingRow>(
    (after, limit) => sql`
    select id, workspace_id, external_meter_id, shard, total_micros, allow_overages, spend_cap_micros, version, created_at, updated_at
    from billing_records
    where ${'ids' in which ? sql`id = any(${which.ids})` : sql`shard = ${which.shard}`} and id > ${after}
    order by id limit ${limit}`,
  );
  for await (const batch of rows) {
    yield batch.map((record) => ({
      kind: 'billing' as const,
      id: record.id,
      shard: record.shard,
      key: keyspace.billing(record.shard, record.workspaceId, record.externalMeterId),
      field: 's',
      value: packRecord('billing', {
        version: record.version,
        billingId: record.id,
        limitMicros: creditLimit(record),
        answerPart: billingPart(record),
      }),
      lifetimeSeconds: 0,
    }));
  }
}
type BillingRow = {
  id: string;
  workspaceId: string;
  externalMeterId: string;
  shard: number;
  totalMicros: number;
  allowOverages: boolean;
  spendCapMicros: number | null;
  version: number;
  createdAt: Date;
  updatedAt: Date;
};

async function* loadKeys(sql: Query, which: Which): AsyncGenerator<Entry[]> {
  const start = { id: '', hash: '' };
  const rows = inBatches<KeyRow, typeof start>(
    start,
    ({ id, hash }) => ({ id, hash }),
    (after, limit) => sql`
    select k.id, k.team_id, k.workspace_id, k.shard, k.enabled, k.deleted_at is not null as deleted, k.expires_at,
           k.customer_id, k.external_meter_id, k.metadata, k.rate_limit_per_second, k.allowed_ips, k.version,
           t.hash, t.valid_until,
           ceil((t.valid_until - extract(epoch from now()) * 1000) / 1000)::int as grace_seconds,
           t.replaced_at is not null as replaced,
           g.refs, g.flags
    from api_keys k join key_texts t on t.key_id = k.id
    cross join lateral (
      select coalesce(array_agg(s.ref order by g.position), '{}') as refs,
             coalesce(array_agg(g.flags order by g.position), '{}') as flags
      from key_grants g join scopes s on s.id = g.scope_id and s.deleted_at is null
      where g.key_id = k.id) g
    where ${'ids' in which ? sql`k.id = any(${which.ids})` : sql`k.shard = ${which.shard}`}
      -- The last of these alone would read all keys from the first on.
      and k.id >= ${after.id} and t.key_id >= ${after.id} and (k.id, t.hash) > (${after.id}, ${after.hash})
    order by k.id, t.hash limit ${limit}`,
  );
  for await (const batch of rows) {
    yield batch.map((key) => {
      // However long ago a text was replaced: a Redis that was down since may still hold it as valid.
      const graceSeconds = Math.max(0, key.graceSeconds ?? 0);
      const gone = key.replaced && graceSeconds === 0;
      return {
        kind: 'key' as const,
        id: key.id,
        shard: key.shard,
        key: keyspace.keyText(key.shard, key.hash),
        field: '',
        value: gone ? tombstone(key.version) : keyRecord(key),
        lifetimeSeconds: key.replaced ? graceSeconds + TOMBSTONE_SECONDS : 0,
      };
    });
  }
}
type KeyRow = {
  id: string;
  teamId: string;
  workspaceId: string;
  shard: number;
  enabled: boolean;
  deleted: boolean;
  expiresAt: number | null;
  customerId: string | null;
  externalMeterId: string | null;
  metadata: Record<string, unknown> | null;
  rateLimitPerSecond: number | null;
  allowedIps: string[] | null;
  version: number;
  hash: string;
  validUntil: number | null;
  graceSeconds: number | null;
  replaced: boolean;
  refs: number[];
  flags: number[];
};

function keyRecord(key: KeyRow): string {
  const state = key.deleted ? 'D' : key.enabled ? 'A' : 'X';
  const ips = key.allowedIps === null ? '' : key.allowedIps.map(blockBits).join(' ') || '*';
  return packRecord('key', {
    version: key.version,
    state,
    teamId: key.teamId,
    workspaceId: key.workspaceId,
    keyId: key.id,
    expiresAtMs: key.expiresAt ?? 0,
    validUntilMs: key.validUntil ?? 0,
    ratePerSecond: key.rateLimitPerSecond ?? '',
    allowedIps: ips,
    meter: key.externalMeterId ?? '',
    workspaceFields: JSON.stringify(['d', ...key.refs.map((ref) => `s${ref}`)]),
    scopeFlags: key.flags.map(flagCharacter).join(''),
    answerPart: keyPart(key),
  });
}

// The part of a verification's answer that only changes with the key, ready-made.
function keyPart({ id, customerId, externalMeterId, expiresAt, metadata }: KeyRow): string {
  const part = {
    apiKeyId: id,
    ...(customerId !== null && { customerId }),
    ...(externalMeterId !== null && { externalMeterId }),
    ...(expiresAt !== null && { expiresAt }),
    ...(metadata !== null && { metadata }),
  };
  return JSON.stringify(part).slice(1, -1);
}

// The part of a verification's answer that only changes with the billing record's settings, ready-made.
function billingPart(record: BillingRow): string {
  const part = {
    id: record.id,
    totalCredits: formatCredits(record.totalMicros),
    allowOverages: record.allowOverages,
    ...(record.spendCapMicros !== null && { spendCap: formatCredits(record.spendCapMicros) }),
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
  };
  return JSON.stringify(part).slice(1, -1);
}

function byId<Row extends { id: string }>(read: (after: string, limit: number) => Promise<Row[]>) {
  return inBatches<Row, string>('', (row) => row.id, read);
}
