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
  REQUESTS_USED_UP: 'api_key_requests_used_up',
  USAGE_LIMITED: 'api_key_usage_limited',
  LIMIT_REACHED: 'api_key_credit_limit',
  COST_ABOVE_LIMIT: 'api_key_cost_above_limit',
  CREDITS_USED_UP: 'api_key_credits_used_up',
  SPEND_CAP_REACHED: 'api_key_spend_cap_reached',
  NO_BILLING_RECORD: 'api_key_no_billing_record',
  IDEMPOTENCY_MISMATCH: 'idempotency_mismatch',
  AWAY: 'api_key_undecided',
  FAILED: 'internal',
  MISCONFIGURED: 'gateway_misconfigured',
};

/** Why guards refuse requests, with the code and message of each. */
export function refusalTable(): Record<string, readonly [code: number, message: string]> {
  return Object.fromEntries(Object.entries(refusals).map(([name, error]) => [name, errors[error]]));
}
