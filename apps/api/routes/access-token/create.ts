import { Type } from 'typebox';
import { notCovered } from '../../../../shared/auth/allowed-addresses.ts';
import { permissions, type Caller, type Permission } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { isId } from '../../../../shared/values/ids.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import { expiresAtInput, requireFuture } from '../../resources/expires-at.ts';
import { route } from '../../http/route.ts';
import { createToken, newAccessToken, presentToken, tokenAddresses } from '../../resources/access/tokens.ts';

export default route({
  method: 'post',
  path: '/api/v1/access-token',
  tag: 'Access tokens',
  operationId: 'createAccessToken',
  summary: 'Create an access token with at most the rights of your own',
  description: 'The secret is in this answer alone.',
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
    allowedIPs: Type.Optional({
      ...tokenAddresses,
      description:
        'the addresses and CIDR blocks that it may be used from; absent: those of your own token; an empty list: all',
    }),
    expiresAt: Type.Optional(expiresAtInput),
  }),
  response: object({ accessToken: newAccessToken }),
  errors: ['expires_at_past', 'permission_not_grantable', 'unknown_workspace_in_token'],

  async handle({ sql, body, caller, changed, audit, clock }) {
    if (body.expiresAt !== undefined) requireFuture(body.expiresAt, clock.now());
    const own = await readOwn(sql, caller);
    requireGrantable(caller, own, body);
    await requireKnown(sql, caller.teamId, body.workspaceIds ?? []);
    const { allowedIPs = own.allowedIps ?? [], ...wanted } = body;
    const made = { teamId: caller.teamId, createdBy: caller.tokenId, allowedIps: allowedIPs, ...wanted };
    const { text, row } = await createToken(sql, made);
    const accessToken = presentToken(row);
    changed('token', row.id, row.shard);
    audit('access_token', row.id, undefined, accessToken);
    return { accessToken: { ...accessToken, token: text } };
  },
});

type NewRights = { permissions: Permission[]; workspaceIds?: string[]; allowedIPs?: string[]; expiresAt?: number };
type OwnLimits = { expiresAt: number | null; allowedIps: string[] | null };

async function readOwn(sql: Query, { tokenId }: Caller): Promise<OwnLimits> {
  const [row] = await sql<[OwnLimits]>`select expires_at, allowed_ips from access_tokens where id = ${tokenId}`;
  return row;
}

/** Throws 403 unless the caller's own token has these permissions, workspaces and addresses, and lives at least as long. */
function requireGrantable(caller: Caller, { expiresAt, allowedIps }: OwnLimits, wanted: NewRights): void {
  const lacking = wanted.permissions.filter((permission) => !caller.permissions.has(permission));
  if (lacking.length > 0) throw notGrantable(`it lacks ${lacking.join(', ')}`);

  const own = caller.workspaceIds;
  if (own && !wanted.workspaceIds?.every((workspaceId) => own.includes(workspaceId))) {
    throw notGrantable('it is limited to workspaces; name only those in workspaceIds');
  }

  if (expiresAt !== null && (wanted.expiresAt ?? Infinity) > expiresAt) {
    throw notGrantable(`it expires; give an expiresAt of at most ${expiresAt}`);
  }

  const { allowedIPs } = wanted;
  if (allowedIps === null || allowedIPs === undefined) return;
  const [outside] = allowedIPs.length === 0 ? ['every address'] : notCovered(allowedIPs, allowedIps);
  if (outside) throw notGrantable(`it may not be used from ${outside}; name only addresses of its own list`);
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
