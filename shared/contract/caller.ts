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
] as const;
export type Permission = (typeof permissions)[number];

/** The holder of an access token. `workspaceIds` undefined: all workspaces of the team. */
export type Caller = {
  tokenId: string;
  teamId: string;
  permissions: ReadonlySet<string>;
  workspaceIds: readonly string[] | undefined;
};
