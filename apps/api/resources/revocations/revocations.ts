import type { Query, Sql, Transaction } from '../../../../shared/stores/postgres.ts';
import { linkTokens, type LinkTokenRow, ofLiveWorkspace } from '../access/link-tokens.ts';
import { accessTokens, type TokenRow } from '../access/tokens.ts';
import { type Recorded, storeRecorded, type AuditOrigin } from '../record.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { applyChanges } from '../../sync/sync.ts';
import { lockTeamTokens } from '../access/access.ts';
import { retireAll } from '../jwts/signing-keys.ts';
import { disableLockedKeys } from '../keys/keys.ts';

/**
 * Revokes a token of the team and, with `descendants`, all that it made and that these made; the caller says so. It runs under the
 * team's lock on tokens, so none is made meanwhile, and the team's quota bounds how many there are. `below`: those that were not
 * revoked before. Below one that was revoked alone there may be others; below one that was revoked with its descendants nothing is left.
 */
export async function revokeToken(sql: Query, id: string, { descendants = true } = {}) {
  const [row] = await sql<[TokenRow]>`
    update access_tokens
    set revoked_at = coalesce(revoked_at, now()), revoked_with_descendants = revoked_with_descendants or ${descendants},
        version = version + 1, updated_at = now()
    where id = ${id}
    returning ${accessTokens.columns(sql)}`;
  return { row, below: descendants ? await revokeBelow(sql, id) : [] };
}

// As subqueries and arrays, so that Postgres never joins all tokens.
async function revokeBelow(sql: Query, id: string): Promise<TokenRow[]> {
  const rows = await sql<(TokenRow & { isNew: boolean })[]>`
    with recursive below (id) as (
      select ${id}::text
      union all
      select made.id from below cross join lateral (
        select id from access_tokens where created_by = below.id and not revoked_with_descendants offset 0) as made)
    update access_tokens
    set revoked_at = coalesce(revoked_at, now()), revoked_with_descendants = true, version = version + 1, updated_at = now()
    where id = any(array(select id from below offset 1))
    returning ${accessTokens.columns(sql)}, revoked_at = now() as is_new`;
  return rows.filter(({ isNew }) => isNew);
}

/** What to say of a token that was just revoked. */
export function revokedToken(row: TokenRow): Recorded {
  return accessTokens.recorded({ before: { ...row, revoked: false, revokedAt: null }, after: row });
}

/** Revokes link tokens under a condition; gives what to say of them. */
export async function revokeLinkTokens(sql: Query, which: ReturnType<Query>): Promise<Recorded[]> {
  const rows = await sql<LinkTokenRow[]>`
    update link_tokens set revoked_at = now() where revoked_at is null and ${which} returning ${linkTokens.columns(sql)}`;
  return rows.map((row) => linkTokens.recorded({ before: { ...row, valid: true }, after: row }));
}

/** What to say of a signing key that was just retired. */
export function retiredKey(kid: string): Recorded {
  return { resource: 'signing_key', id: kid, before: { kid } };
}

// Everything that a team has given out, revoked by the operator: access tokens, link tokens, signing keys, API keys. The first
// transaction ends what can be ended at once; the rest is done page by page. What is revoked is not done again, so a command that
// died is finished by the next one.

// Each page waits for the writes of its team and holds them up: a small one does so for some tens of milliseconds.
const ROWS_AT_ONCE = 200;

/**
 * Begins to revoke everything of a team. From the commit on, the api refuses every access token that the team has, and JWTs that it has
 * signed are INVALID. Gives how many signing keys ended.
 */
export async function beginTeamRevocation(sql: Sql, origin: AuditOrigin): Promise<number> {
  const { teamId } = origin;
  return sql.begin(async (tx) => {
    await lockTeamTokens(tx, teamId, { alone: true });
    await tx`update teams set tokens_revoked_at = clock_timestamp() where id = ${teamId}`;
    const kids = await retireAll(tx, teamId);
    await storeRecorded(tx, origin, [...kids.map(retiredKey), ...(await disableWebhooks(tx, teamId))]);
    return kids.length;
  });
}

/**
 * Revokes what a team had when its revocation began; gives what each page revoked.
 * 1. One transaction holds the page, its changes and its audit lines. A crash before the commit leaves the page to be done.
 * 2. The changes are applied to Redis. After a crash before this step, the sweeper applies them.
 */
export async function* revokePages(sql: Sql, redis: ShardedRedis, origin: AuditOrigin): AsyncGenerator<Recorded[]> {
  // What can do the most harm comes first.
  for (const revoke of [revokeTokens, disableKeys, revokeLinks])
    for (let after: string | undefined = ''; after !== undefined;) {
      const last: string = after;
      const { page, stored } = await sql.begin(async (tx) => {
        await lockTeamTokens(tx, origin.teamId, { alone: true });
        const page = await revoke(tx, isNext(tx, origin.teamId, last));
        return { page, stored: await storeRecorded(tx, origin, page) };
      });
      await applyChanges(sql, redis, stored);
      await sql`update changes set applied_at = now() where id = any(${stored.map(({ id }) => id)})`;
      yield page;
      // `returning` has no order.
      after = page.map(({ id }) => id).toSorted()[ROWS_AT_ONCE - 1];
    }
}

/** A stolen token may have made some, which tell a stranger what happens and what is used, or make credits of what a stranger signs. A team has a few. */
async function disableWebhooks(tx: Transaction, teamId: string): Promise<Recorded[]> {
  const secrets = tx`secret_sealed = null, previous_sealed = null, previous_until = null`;
  const asked = tx`enabled = false, disabled_reason = 'REQUESTED', disabled_at = now()`;
  const recorded: Recorded[] = [];
  for (const [resource, live, set, before, after] of [
    ['webhook', tx`enabled`, asked, { enabled: true }, { enabled: false, disabledReason: 'REQUESTED' }],
    ['meter_destination', tx`enabled`, tx`enabled = false`, { enabled: true }, { enabled: false }],
    ['payment_source', tx`secret_sealed is not null`, secrets, { hasSecret: true }, { hasSecret: false }],
  ] as const) {
    const rows = await tx<{ id: string }[]>`
      update ${tx(`${resource}s`)} set ${set}, updated_at = now()
      where team_id = ${teamId} and ${live} and deleted_at is null returning id`;
    recorded.push(...rows.map(({ id }) => ({ resource, id, before, after })));
  }
  return recorded;
}

function isNext(tx: Transaction, teamId: string, after: string) {
  return tx`
    team_id = ${teamId} and id > ${after} and created_at <= (select tokens_revoked_at from teams where id = ${teamId})`;
}

type Condition = ReturnType<typeof isNext>;

async function revokeTokens(tx: Transaction, isNext: Condition): Promise<Recorded[]> {
  const rows = await tx<TokenRow[]>`
    update access_tokens set revoked_at = now(), version = version + 1, updated_at = now()
    where id in (select id from access_tokens where ${isNext} and revoked_at is null order by id limit ${ROWS_AT_ONCE})
    returning ${accessTokens.columns(tx)}`;
  return rows.map(revokedToken);
}

async function disableKeys(tx: Transaction, isNext: Condition): Promise<Recorded[]> {
  const isLive = tx`exists (select from workspaces w where w.id = api_keys.workspace_id and w.deleted_at is null)`;
  const rows = await tx<{ id: string }[]>`
    select id from api_keys where ${isNext} and enabled and deleted_at is null and ${isLive}
    order by id limit ${ROWS_AT_ONCE} for no key update`;
  return disableLockedKeys(
    tx,
    rows.map(({ id }) => id),
  );
}

async function revokeLinks(tx: Transaction, isNext: Condition): Promise<Recorded[]> {
  return revokeLinkTokens(
    tx,
    tx`id in (select id from link_tokens
              where ${isNext} and revoked_at is null and ${ofLiveWorkspace(tx)} order by id limit ${ROWS_AT_ONCE})`,
  );
}
