import { errors, type ErrorName } from '../../../shared/contract/errors.ts';

// Why a guard refuses a request: the client's name for the reason, and its place in the catalogue of errors.
const refusals: Record<string, ErrorName> = {
  NO_KEY: 'api_key_missing',
  TWO_KEYS: 'api_key_ambiguous',
  INVALID: 'api_key_invalid',
  EXPIRED: 'api_key_expired',
  DISABLED: 'api_key_disabled',
  DELETED: 'api_key_deleted',
  INVALID_SCOPES: 'api_key_scopes',
  IP_NOT_ALLOWED: 'api_key_address',
  RATE_LIMITED: 'api_key_rate_limited',
  USAGE_LIMITED: 'api_key_usage_limited',
  AWAY: 'api_key_undecided',
  FAILED: 'internal',
  MISCONFIGURED: 'gateway_misconfigured',
};

/** Why guards refuse requests, with the code and message of each. */
export function refusalTable(): Record<string, readonly [code: number, message: string]> {
  return Object.fromEntries(Object.entries(refusals).map(([name, error]) => [name, errors[error]]));
}
