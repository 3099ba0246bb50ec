import { Type } from 'typebox';
import { notCovered } from '../../../../shared/auth/access-token.ts';
import { permissions, type Caller, type Permission } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object, flag, someOf, whole } from '../../../../shared/contract/schema-kinds.ts';
import { name, expiresAtInput, requireFuture } from '../../../../shared/contract/schemas.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { notGrantable, requireHeld } from '../../resources/access/access.ts';
import {
  createToken,
  newAccessToken,
  accessTokens,
  tokenAddresses,
  accessToken,
  withinReach,
} from '../../resources/access/tokens.ts';
import { revokeToken, revokedToken } from '../../resources/revocations/revocations.ts';

export const createAccessToken = route('post', '/api/v1/access-token', {
  summary: 'Create an access token with at most the rights of your own',
  description: 'The secret is in this answer alone.',
  permission: 'token:write',
  status: 201,
  grows: true,
  body: object({
    name,
    permissions: someOf(permissions, { minItems: 1 }),
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
  errors: ['expires_at_past', 'permission_not_grantable', 'workspace_forbidden'],

  async handle({ sql, body, caller, changed, clock }) {
    if (body.expiresAt !== undefined) requireFuture(body.expiresAt, clock.now());
    const own = await readOwn(sql, caller);
    requireGrantable(caller, own, body);
    await requireKnown(sql, caller.teamId, body.workspaceIds ?? []);
    const { allowedIPs = own.allowedIps ?? [], ...wanted } = body;
    const made = { teamId: caller.teamId, createdBy: caller.tokenId, allowedIps: allowedIPs, ...wanted };
    const { text, row } = await createToken(sql, made);
    return { accessToken: { ...accessTokens.say(changed, { after: row }), token: text } };
  },
});

export const listAccessTokens = listRoute('/api/v1/access-token', 'accessTokens', accessToken, {
  summary: 'List access tokens, also revoked ones, without their secrets',
  description: 'Pages follow by `cursor`, in the order in which the tokens were made.',
  permission: 'token:write',

  async open({ sql, caller }) {
    return accessTokens.list(sql, withinReach(sql, caller));
  },
});

export const getAccessToken = route('get', '/api/v1/access-token/{id}', {
  summary: 'Get an access token, without its secret',
  description: 'Gives the permissions, workspaces, addresses and end of a token.',
  permission: 'token:write',
  response: object({ accessToken }),

  async handle({ sql, params, caller }) {
    const row = await accessTokens.require(sql, params.id, withinReach(sql, caller));
    return { accessToken: accessTokens.present(row) };
  },
});

export const deleteAccessToken = route('delete', '/api/v1/access-token/{id}', {
  summary: 'Revoke an access token, also your own, with all that it made; within a second they are refused',
  description:
    'The tokens that it made, and that these made, end with it, unless `descendants=false` keeps them. A token cannot revoke one that made it, directly or through others.',
  permission: 'token:write',
  revokes: true,
  query: object({
    descendants: flag('whether the tokens that it made, and that these made, are revoked too', true),
  }),
  response: object({
    accessToken,
    descendants: object({
      revoked: whole('how many of its descendants this call revoked', 2),
      pending: Type.Boolean({
        description: 'whether some are revoked later: all of them were with this answer',
        examples: [false],
      }),
    }),
  }),
  errors: ['token_above'],

  async handle({ sql, params, query, caller, changed }) {
    const before = await accessTokens.require(sql, params.id, withinReach(sql, caller), { lock: true });
    if (await isAbove(sql, before.id, caller)) throw new ApiError('token_above');
    const { row, below } = await revokeToken(sql, before.id, query);
    const accessToken = accessTokens.say(changed, { before, after: row });
    for (const one of below) changed(revokedToken(one));
    return { accessToken, descendants: { revoked: below.length, pending: false } };
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
  requireHeld(caller, wanted.permissions);
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
  if (details.length > 0) throw new ApiError('workspace_forbidden', { details });
}

/** Whether a token made the caller's, or one above it. A leaked child would lock out those who can end it. */
async function isAbove(sql: Query, id: string, { tokenId }: Caller): Promise<boolean> {
  const [row] = await sql<[{ isAbove: boolean }]>`
    with recursive makers (id) as (
      select created_by from access_tokens where id = ${tokenId}
      union
      select t.created_by from makers m join access_tokens t on t.id = m.id where t.created_by is not null)
    select exists (select from makers where id = ${id}) as is_above`;
  return row.isAbove;
}
