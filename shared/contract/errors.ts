/**
 * The catalogue of every error the service answers. A code is the HTTP status times 100 plus a running number; a
 * code is never reused and never changes its meaning. The README's table is made from this file. The client
 * package has a copy of what an end client is refused for, made by `npm run client`: its guards and the gateway endpoint
 * answer alike.
 */
export const errors = {
  invalid_request: [40001, 'The request is not valid; see details for what would be.'],
  invalid_json: [40002, 'The body is not valid JSON; send one JSON object.'],
  unknown_scope: [40003, 'A scope that was granted does not exist in the workspace; create it first.'],
  expires_at_past: [40004, 'expiresAt must lie in the future, in Unix milliseconds.'],
  registered_claim: [
    40005,
    'The payload sets a registered claim; iss, aud, exp, iat, nbf and jti are set by the service.',
  ],
  credits_too_large: [40006, 'The sum would pass 9000000000 credits, the most a billing record holds.'],
  invalid_cursor: [40007, 'The cursor is not one that this list answered; start again without it.'],
  unknown_workspace_in_token: [40008, 'A workspace that the token is to be limited to does not exist in your team.'],
  bad_http: [40010, 'The request is not valid HTTP.'],
  idempotency_key_missing: [40011, 'Send an Idempotency-Key, so that a repeated request books nothing twice.'],
  negative_usage: [40012, 'The adjustment would make the used credits negative.'],
  token_missing: [40101, 'Send an access token: Authorization: Bearer <ACCESS_TOKEN>.'],
  token_unknown: [40102, 'The access token is unknown, expired or revoked; use a valid one.'],
  api_key_missing: [40110, 'Send an API key, as Authorization: Bearer, x-api-key or Authorization: Basic.'],
  api_key_ambiguous: [40111, 'Send one API key: this request has more, or both parts of Authorization: Basic.'],
  api_key_invalid: [40112, 'Invalid: this is no API key of this service.'],
  api_key_expired: [40113, 'Expired: the API key has expired.'],
  api_key_disabled: [40114, 'Inactive: the API key is disabled.'],
  api_key_deleted: [40115, 'Inactive: the API key was deleted.'],
  permission_missing: [40301, 'The access token lacks the permission for this operation.'],
  workspace_forbidden: [40302, 'The workspace does not exist or the access token may not use it.'],
  permission_not_grantable: [40303, 'A token can only grant what it holds itself.'],
  api_key_scopes: [40310, 'Invalid Scopes: the API key was not granted what this request needs.'],
  api_key_address: [40311, 'Invalid: the API key is not valid from this address.'],
  route_not_found: [40401, 'There is no such path; /openapi.json lists them all.'],
  scope_not_found: [40402, 'The scope does not exist in this workspace.'],
  key_not_found: [40403, 'The API key does not exist in this workspace.'],
  billing_not_found: [40404, 'The billing record does not exist.'],
  access_token_not_found: [40405, 'The access token does not exist.'],
  link_token_not_found: [40406, 'The link token does not exist.'],
  method_not_allowed: [40501, 'The path does not take this method; see the Allow header.'],
  request_timeout: [40801, 'The request did not arrive in time.'],
  representation_taken: [40901, 'A scope with this representation exists already in the workspace.'],
  billing_exists: [40902, 'A billing record exists already for this workspace and external meter.'],
  key_deleted: [40903, 'The API key is deleted; deletion is final.'],
  idempotency_mismatch: [40904, 'The Idempotency-Key was used before with another request; use a new one.'],
  idempotency_busy: [40905, 'The first request with this Idempotency-Key is still running; repeat it in a moment.'],
  scope_limit_reached: [40906, 'A workspace holds at most 1000 scopes; delete one first.'],
  body_too_large: [41301, 'The body is too large.'],
  not_json: [41501, 'Send the body as application/json.'],
  encoded_body: [41502, 'Send the body as it is, without a Content-Encoding.'],
  too_many_failures: [
    42901,
    'Authentication failed too often from your address; send a valid token, or wait as long as Retry-After says. Valid tokens always pass.',
  ],
  too_many_calls: [
    42902,
    'The access token makes more management calls a second than it may; wait as long as Retry-After says.',
  ],
  api_key_rate_limited: [42910, 'Rate Limited: a temporary block, too many requests in this second.'],
  api_key_usage_limited: [42911, 'Usage Limited: a temporary block, the credits do not cover this request.'],
  headers_too_large: [43101, 'The address and headers of the request are larger than 16 KiB.'],
  internal: [50001, 'Something went wrong on our side; it was logged with the request id.'],
  redis_unavailable: [
    50301,
    'Verification state can not be reached, and nothing was changed; repeat the request in a moment.',
  ],
  postgres_unavailable: [50302, 'The settings store can not be reached; repeat the request in a moment.'],
  usage_unavailable: [50303, 'The usage store can not be reached; repeat the request in a moment.'],
  stored_not_in_force: [
    50304,
    'The change is stored but not yet in force; it comes into force by itself. Repeating it with its Idempotency-Key is safe.',
  ],
  undecided: [
    50305,
    'The verification could not be decided in time. Repeat it; with an Idempotency-Key it is debited once.',
  ],
  outbox_full: [
    50306,
    'Usage can not be recorded right now, so metered verifications wait; repeat the request in a moment.',
  ],
  deadline: [
    50307,
    'The request took too long; repeat it in a moment. A change is safe to repeat with its Idempotency-Key.',
  ],
  overloaded: [50308, 'More verifications arrive than can be decided; this one cost nothing. Repeat it in a moment.'],
  postgres_stale: [
    50309,
    'The settings were restored from a backup and are older than what is in force, and nothing was stored. An operator has to run `npm run restored`.',
  ],
  stored_or_not: [
    50310,
    'It is not known whether the change is stored; it is wholly or not at all. Repeating it with its Idempotency-Key is safe.',
  ],
  api_key_undecided: [50311, 'The API key can not be verified at the moment; repeat the request.'],
} as const satisfies Record<string, readonly [number, string]>;

export type ErrorName = keyof typeof errors;

/** One wrong place of a request: `path` is a JSON pointer into the body, or the name of a parameter. */
export type ErrorDetail = { path: string; message: string };

type ErrorOptions = { message?: string; details?: ErrorDetail[]; headers?: Record<string, string>; cause?: unknown };

/** A failure with its place in the catalogue. `message` replaces the preset text where more can be said. */
export class ApiError extends Error {
  readonly errorName: ErrorName;
  readonly code: number;
  readonly status: number;
  readonly details: ErrorDetail[] | undefined;
  readonly headers: Record<string, string>;

  constructor(name: ErrorName, options: ErrorOptions = {}) {
    const [code, text] = errors[name];
    super(options.message ?? text, { cause: options.cause });
    this.errorName = name;
    this.code = code;
    this.status = Math.floor(code / 100);
    this.details = options.details;
    this.headers = { ...statusHeaders(this.status), ...options.headers };
  }
}

/** The error envelope of section 7 of the specification. */
export function errorEnvelope(error: ApiError, requestId: string) {
  const { code, message, details } = error;
  return { error: { code, message, requestId, ...(details && { details }) } };
}

function statusHeaders(status: number): Record<string, string> {
  if (status === 401) return { 'WWW-Authenticate': 'Bearer' };
  if (status === 503) return { 'Retry-After': '1' };
  return {};
}
