import type { BillingRef } from '../../../../shared/books/billing-refs.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { sweep } from '../../sync/sweeper.ts';
import { removeDeleted } from '../../sync/remove-deleted.ts';
import type { World } from '../../../../tests/helpers/world.ts';

/** What an api does in the background, done by a test when it wants it. Neither disturbs the other. */
export function makeBackground({ sql, redis }: World) {
  const sweepAll = async () => {
    while ((await sweep(sql, redis)) > 0);
  };
  return {
    /** Brings into force what a test changed of an entity in Postgres. */
    async apply(kind: 'token' | 'key' | 'scope' | 'workspace', id: string): Promise<void> {
      const table = { token: 'access_tokens', key: 'api_keys', scope: 'scopes', workspace: 'workspaces' }[kind];
      const shard = kind === 'token' || kind === 'key' ? sql`shard` : sql`null`;
      await sql`
        with changed as (update ${sql(table)} set version = version + 1 where id = ${id} returning *)
        insert into changes (kind, entity_id, shard, created_at)
        select ${kind}, id, ${shard}, now() - interval '1 hour' from changed`;
      await sweepAll();
    },
    /** Brings into force what has waited for some seconds. */
    sweep: sweepAll,
    /** Removes what was deleted, page by page, until a query finds that it is gone. */
    async removeUntil(isGone: () => Promise<boolean>): Promise<void> {
      do {
        await removeDeleted(sql, redis);
        await sweepAll();
      } while (!(await isGone()));
    },
  };
}

/** The headers of an access token that no program has in its memory of callers: it looks the token up for each request. */
export function lookedUp(token: string): { Authorization: string } {
  return { Authorization: `Bearer${' '.repeat(128)}${token}` };
}

/**
 * What a process leaves that dies after its commit: an adjustment of a record of which Redis has yet to hear, so many minutes later.
 */
export async function leaveAdjustment(
  { sql, team }: World,
  { id, shard }: BillingRef,
  { number, credits, minutesAgo = 0 }: { number: number; credits: number; minutesAgo?: number },
): Promise<void> {
  const entityId = newId('evt');
  await sql`update billing_records set last_adjustment = ${number} where id = ${id}`;
  await sql`
    insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id)
    select ${entityId}, ${team.id}, ${id}, ${number}, ${credits * 1_000_000}, 'default', (now() at time zone 'utc')::date,
           'r', min(id), 'r'
    from access_tokens where team_id = ${team.id}`;
  await sql`
    insert into changes (kind, entity_id, shard, created_at)
    values ('adjustment', ${entityId}, ${shard}, now() - make_interval(mins => ${minutesAgo}))`;
}
