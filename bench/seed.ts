import type { Sql } from '../shared/stores/postgres.ts';
import { permissions } from '../shared/contract/caller.ts';
import { MAX_MICROS } from '../shared/values/credits.ts';
import { newId } from '../shared/values/ids.ts';
import { hashKeyText, makeKeyText, maskKeyText, randomShard } from '../shared/values/key-text.ts';
import { meterShard } from '../shared/stores/keyspace.ts';

/** What the load uses. */
export type Seeded = { token: string; workspaceId: string; keys: string[] };

const KEYS_PER_METER = 10;
const AT_ONCE = 10_000;
const SCOPES = ['users', 'orders', 'posts'];

/**
 * Fills an empty database as the api would: one team, one workspace with three scopes, and `count` keys, each with the scopes, a
 * rate limit, small metadata and a billing record that ten keys share. Gives the secrets of the last `wanted` keys.
 */
export async function seed(sql: Sql, count: number, wanted: number, told: (done: number) => void): Promise<Seeded> {
  const [teamId, workspaceId, tokenShard] = [newId('team'), newId('ws'), randomShard()];
  const token = makeKeyText('kt', tokenShard);
  const scopes = SCOPES.map((representation, i) => ({ id: newId('scope'), representation, ref: i + 1 }));
  // Without triggers: counting each row of so many at once (team_usage) would take longer than inserting it.
  await sql`set session_replication_role = replica`;
  await sql`insert into teams (id, name) values (${teamId}, 'bench')`;
  await sql`
    insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions)
    values (${newId('tok')}, ${teamId}, 'bench', ${hashKeyText(token)}, '', ${tokenShard}, ${[...permissions]})`;
  await sql`insert into workspaces (id, team_id, name, last_scope_ref) values (${workspaceId}, ${teamId}, 'bench', 3)`;
  await sql`insert into scopes ${sql(scopes.map((scope) => ({ ...scope, teamId, workspaceId, name: scope.representation })))}`;

  let keys: string[] = [];
  for (let done = 0; done < count; done += AT_ONCE) {
    const numbers = Array.from({ length: Math.min(AT_ONCE, count - done) }, (_, i) => done + i);
    const made = numbers.map((number) => {
      const externalMeterId = `meter-${Math.floor(number / KEYS_PER_METER)}`;
      const shard = meterShard(workspaceId, externalMeterId);
      return { id: newId('key'), number, externalMeterId, shard, text: makeKeyText('acme', shard) };
    });
    const meters = made.filter(({ number }) => number % KEYS_PER_METER === 0);
    await sql`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
      select id, ${teamId}, ${workspaceId}, meter, shard, ${MAX_MICROS}, false
      from unnest(${meters.map(() => newId('bill'))}::text[], ${meters.map((one) => one.externalMeterId)}::text[],
                  ${meters.map((one) => one.shard)}::int[]) as t (id, meter, shard)`;
    await sql`
      insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, customer_id,
                            external_meter_id, metadata, rate_limit_per_second)
      select id, ${teamId}, ${workspaceId}, shard, 'bench', 'acme', masked, true, 'customer-' || meter, meter,
             '{"plan":"pro","seats":12}', 1000000
      from unnest(${made.map((one) => one.id)}::text[], ${made.map((one) => one.shard)}::int[],
                  ${made.map((one) => maskKeyText(one.text))}::text[],
                  ${made.map((one) => one.externalMeterId)}::text[]) as t (id, shard, masked, meter)`;
    await sql`
      insert into key_texts (hash, team_id, key_id)
      select hash, ${teamId}, id
      from unnest(${made.map((one) => hashKeyText(one.text))}::text[], ${made.map((one) => one.id)}::text[]) as t (hash, id)`;
    await sql`
      insert into key_grants (team_id, key_id, scope_id, flags, position)
      select ${teamId}, key.id, scope.id, 15, scope.position
      from unnest(${made.map((one) => one.id)}::text[]) as key (id),
           unnest(${scopes.map((one) => one.id)}::text[]) with ordinality as scope (id, position)`;
    keys = [...keys, ...made.map((one) => one.text)].slice(-wanted);
    told(done + numbers.length);
  }
  // Postgres would do this itself after a while. A plan made without statistics reads all keys for each thousand.
  await sql`analyze`;
  return { token, workspaceId, keys };
}
