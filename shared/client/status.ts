import type { Contract } from './contract.ts';

export type Verification = Contract['post /api/v1/api-key/verify']['output'];
export type Status = Verification['status'];

/** How people read a status; the two limits are temporary blocks. */
export const displayForms: Record<Status, string> = {
  VALID: 'Active',
  EXPIRED: 'Expired',
  DISABLED: 'Inactive',
  DELETED: 'Inactive',
  RATE_LIMITED: 'Rate Limited',
  USAGE_LIMITED: 'Usage Limited',
  INVALID_SCOPES: 'Invalid Scopes',
  INVALID: 'Invalid',
};
