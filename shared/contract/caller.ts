/** What an access token may be granted. */
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
  'link:read',
  'link:write',
  'token:write',
  'audit:read',
] as const;
export type Permission = (typeof permissions)[number];

/** Whom an access token speaks for. `workspaceIds` undefined: all workspaces of the team. */
export type Caller = {
  tokenId: string;
  teamId: string;
  permissions: ReadonlySet<string>;
  workspaceIds: readonly string[] | undefined;
};
