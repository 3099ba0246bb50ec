import { ACCESS_TOKEN_PREFIX, permissions, type Permission } from '../../shared/access-token.ts';
import { newId } from '../../shared/ids.ts';
import { hashKeyText, makeKeyText, maskKeyText, randomShard } from '../../shared/key-text.ts';
import type { Query } from '../../shared/postgres.ts';

type NewToken = {
  teamId: string;
  name: string;
  permissions: readonly Permission[];
  workspaceIds?: readonly string[] | undefined;
  expiresAt?: number | undefined;
};

/** Stores a new access token; its text is given here and nowhere else. The caller says that it `changed`. */
export async function createToken(sql: Query, { teamId, name, permissions, workspaceIds, expiresAt }: NewToken) {
  const shard = randomShard();
  const text = makeKeyText(ACCESS_TOKEN_PREFIX, shard);
  const tokenId = newId('tok');
  const [row] = await sql<[{ createdAt: Date; updatedAt: Date }]>`
    insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions, workspace_ids, expires_at)
    values (${tokenId}, ${teamId}, ${name}, ${hashKeyText(text)}, ${maskKeyText(text)}, ${shard}, ${[...permissions]},
            ${workspaceIds ? [...workspaceIds] : null}, ${expiresAt ?? null})
    returning created_at, updated_at`;
  return { tokenId, text, shard, ...row };
}

/** Finds a team by its name or makes it. */
export async function findOrCreateTeam(sql: Query, name: string): Promise<string> {
  await sql`insert into teams (id, name) values (${newId('team')}, ${name}) on conflict (name) do nothing`;
  const [team] = await sql<[{ id: string }]>`select id from teams where name = ${name}`;
  return team.id;
}

/** A token with every permission for a team, as the operator hands it out. */
export async function createFullToken(sql: Query, teamId: string) {
  return createToken(sql, { teamId, name: 'operator', permissions });
}
