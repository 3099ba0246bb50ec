import { Type } from 'typebox';
import { permissions, type Caller, type Permission } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { isId } from '../../../../shared/values/ids.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { expiresAtInput, requireFuture } from '../../resources/expires-at.ts';
import { route } from '../../http/route.ts';
import { createToken, newAccessToken, presentToken } from '../../resources/tokens.ts';

export default route({
  method: 'post',
  path: '/api/v1/access-token',
  tag: 'Access tokens',
  summary: 'Create an access token with at most the rights of your own',
  permission: 'token:write',
  status: 201,
  writes: true,
  grows: true,
  body: object({
    name,
    permissions: Type.Array(Type.Enum([...permissions]), {
      minItems: 1,
      maxItems: permissions.length,
      uniqueItems: true,
    }),
    workspaceIds: Type.Optional(
      Type.Array(id('workspace'), {
        minItems: 1,
        maxItems: 100,
        uniqueItems: true,
        description: 'the workspaces it is limited to; absent: all of the team',
      }),
    ),
    expiresAt: Type.Optional(expiresAtInput),
  }),
  response: object({ accessToken: newAccessToken }),
  errors: ['expires_at_past', 'permission_not_grantable', 'unknown_workspace_in_token'],

  async handle({ sql, body, caller, changed, audit }) {
    if (body.expiresAt !== undefined) requireFuture(body.expiresAt, Date.now());
    await requireGrantable(sql, caller, body);
    await requireKnown(sql, caller.teamId, body.workspaceIds ?? []);
    const { text, row } = await createToken(sql, { teamId: caller.teamId, ...body });
    const accessToken = presentToken(row);
    changed('token', row.id, row.shard);
    audit('access_token', row.id, undefined, accessToken);
    return { accessToken: { ...accessToken, token: text } };
  },
});

type NewRights = { permissions: Permission[]; workspaceIds?: string[]; expiresAt?: number };

/** Throws 403 unless the caller's own token has these permissions and workspaces, and lives at least as long. */
async function requireGrantable(sql: Query, caller: Caller, wanted: NewRights): Promise<void> {
  const lacking = wanted.permissions.filter((permission) => !caller.permissions.has(permission));
  if (lacking.length > 0) throw notGrantable(`it lacks ${lacking.join(', ')}`);

  const own = caller.workspaceIds;
  if (own && !wanted.workspaceIds?.every((workspaceId) => own.includes(workspaceId))) {
    throw notGrantable('it is limited to workspaces; name only those in workspaceIds');
  }

  const [row] = await sql<[{ expiresAt: number | null }]>`
    select expires_at from access_tokens where id = ${caller.tokenId}`;
  if (row.expiresAt !== null && (wanted.expiresAt ?? Infinity) > row.expiresAt) {
    throw notGrantable(`it expires; give an expiresAt of at most ${row.expiresAt}`);
  }
}

async function requireKnown(sql: Query, teamId: string, workspaceIds: string[]): Promise<void> {
  const wellFormed = workspaceIds.filter(isId);
  const rows = await sql<{ id: string }[]>`
    select id from workspaces where team_id = ${teamId} and id = any(${wellFormed}) and deleted_at is null`;
  const known = new Set(rows.map((row) => row.id));
  const details = workspaceIds.flatMap((workspaceId, i) =>
    known.has(workspaceId) ? [] : [{ path: `/workspaceIds/${i}`, message: 'does not exist in your team' }],
  );
  if (details.length > 0) throw new ApiError('unknown_workspace_in_token', { details });
}

function notGrantable(why: string): ApiError {
  return new ApiError('permission_not_grantable', {
    message: `A token can only grant what it holds itself, and ${why}.`,
  });
}
