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
  'metering:read',
  'metering:write',
] as const;
export type Permission = (typeof permissions)[number];

/** What a link token can permit besides looking. */
export const linkPermissions = ['rotate'] as const;

/** What a link token opens: what its customer has in one workspace. */
export type Portal = {
  linkTokenId: string;
  workspaceId: string;
  customerId: string;
  /** The billing record that it names; it shows only where all keys of it are the customer's. */
  billingId: string | undefined;
  mayRotate: boolean;
  expiresAt: number;
};

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
  /** A customer asks, by a link token that the access token made, and has no permission but for this. */
  portal?: Portal;
  /** A payment source has a payment told, which it signed; the access token is that which made the source. */
  source?: { id: string; workspaceId: string };
};
