/** The permissions that an access token can have. */
export const permissions = [
  'workspace:read',
  'workspace:write',
  'key:read',
  'key:write',
  'key:verify',
  'billing:read',
  'billing:write',
  'usage:read',
  'jwt:sign',
  'jwt:verify',
  'jwt:revoke',
  'link:read',
  'link:write',
  'token:write',
  'audit:read',
  'webhook:read',
  'webhook:write',
] as const;
export type Permission = (typeof permissions)[number];

/**
 * The holder of an access token. `workspaceIds` undefined: all workspaces of the team. `allowedBlocks` undefined: it may be
 * used from every address.
 */
export type Caller = {
  tokenId: string;
  teamId: string;
  permissions: ReadonlySet<string>;
  workspaceIds: readonly string[] | undefined;
  /** Requests per second that the team has as its own limit, of the kind that this token was authenticated for; absent: the default. */
  teamPerSecond?: number | undefined;
  allowedBlocks?: readonly string[] | undefined;
  /** The session that stands for the token; absent: the token itself came. */
  sessionId?: string;
};
