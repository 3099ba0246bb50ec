import { NoAnswerError } from '../runtime/timeout.ts';

const CODE_LENGTH = 5;

/**
 * The catalogue of every error the service answers. A code is the HTTP status times 100 plus a running number; it is
 * never reused and never changes its meaning. A message says what is wrong and, where it helps, what would be right.
 * After a change run `npm run reference`, which writes the table of errors, and `npm run client`, which copies the refusals
 * of end clients (`api_key_…`) into the client package, so that its guards and the gateway endpoint answer alike.
 */
const catalogue = {
  invalid_request: '40001 The request is not valid; details says what each field must be.',
  invalid_json: '40002 The body is not valid JSON; send one JSON object.',
  unknown_scope: '40003 A granted scope does not exist in the workspace; create it first.',
  expires_at_past: '40004 expiresAt must lie in the future, in Unix milliseconds.',
  registered_claim:
    '40005 The payload sets a registered claim; leave out iss, aud, exp, iat, nbf, jti and keytally_workspaces, which the service sets.',
  credits_too_large: '40006 The sum would exceed 9000000000 credits, the most a billing record can hold.',
  invalid_cursor: '40007 The cursor is not one that this list returned; leave it out to start again.',
  bad_http: '40010 The request is not valid HTTP.',
  idempotency_key_missing: '40011 The Idempotency-Key is missing; send one, so that a retry books nothing twice.',
  negative_usage: '40012 The adjustment would make the used credits negative; give back at most what was used.',
  statements_too_many: '40060 The file would have more than 200000 lines; read the pages of JSON instead.',
  usage_too_large:
    '40020 The answer would have more than 10000 rows; ask for fewer days (from, to) or for one usageName.',
  usage_too_slow:
    '40021 The answer takes more time or memory than a request may; ask for a shorter time, or for one billing record or key. GET /api/v1/usage has more time for a file (CSV, Parquet).',
  too_many_events:
    '40022 By key, route or customer, usage is summed from at most 50000000 events of 92 days; ask for fewer days (from, to) or for one billingId.',
  export_too_large:
    '40023 The export is larger, or takes more memory, than the operator allows; ask for fewer days (from, to), a longer interval, or fewer groups.',
  key_text_wrong:
    '40030 The key cannot be imported: give key, 8 to 512 printable characters without blanks, or hash, the SHA-256 of such a text.',
  key_text_weak:
    '40031 The key could be guessed: its text has fewer than 64 random bits. Give its customer a new one, or send allowWeak.',
  too_many_secrets: '40016 The text holds more than 200 different secrets; send it in parts.',
  jwt_not_of_team: '40017 The JWT was not signed for your team; send the JWT as it was answered, or its jti.',
  payment_signature_wrong:
    '40070 The signature is missing, is older or newer than 5 minutes, or is not of the secret of this payment source.',
  token_missing: '40101 The access token is missing; send Authorization: Bearer <ACCESS_TOKEN>.',
  token_unknown: '40102 The access token is unknown, expired or revoked; use a valid one.',
  session_ended: '40103 The session has ended; sign in again with an access token.',
  portal_ended: '40104 The link has ended, or was never valid; ask for a new one where you got it.',
  api_key_missing: '40110 The API key is missing; send it as Authorization: Bearer, x-api-key or Authorization: Basic.',
  api_key_ambiguous:
    '40111 The request holds several API keys; send one, and only one of the two parts of Authorization: Basic.',
  api_key_invalid: '40112 Invalid: this is not a valid API key of this service.',
  api_key_expired: '40113 Expired: the API key has expired.',
  api_key_disabled: '40114 Inactive: the API key is disabled.',
  api_key_deleted: '40115 Inactive: the API key was deleted.',
  api_key_credits_used_up: '40210 Usage Limited: the credits that are left do not cover this request.',
  api_key_spend_cap_reached: '40211 Usage Limited: this request would exceed the spend cap.',
  permission_missing: '40301 The access token lacks the permission for this operation.',
  workspace_forbidden: '40302 The workspace does not exist, or the access token may not use it.',
  permission_not_grantable: '40303 A token can only grant what it holds itself.',
  token_above: '40304 A token cannot revoke one that made it, directly or through others; use another token.',
  quota_exceeded:
    '40320 The team has used up a quota; delete what it no longer needs, or ask the operator for more. GET /api/v1/quota tells limits and use.',
  address_not_allowed: '40306 The access token may not be used from this address.',
  session_elsewhere:
    '40308 A session counts only for the pages of its own origin; use the console at /console, or send an access token.',
  session_unmarked: '40309 A session changes something only with the header X-Keytally-Session: 1; send it along.',
  api_key_scopes: '40310 Invalid Scopes: the API key lacks a scope that this request needs.',
  api_key_address: '40311 Invalid: the API key may not be used from this address.',
  api_key_cost_above_limit: '40312 Usage Limited: this request costs more than all of a limit on credits.',
  api_key_no_billing_record: '40313 Usage Limited: there is no billing record that this request could be debited to.',
  route_not_found: '40401 The path does not exist; /openapi.json lists all paths.',
  scope_not_found: '40402 The scope does not exist in this workspace.',
  key_not_found: '40403 The API key does not exist in this workspace.',
  billing_not_found: '40404 The billing record does not exist.',
  access_token_not_found: '40405 The access token does not exist.',
  link_token_not_found: '40406 The link token does not exist.',
  grant_not_found: '40430 The grant does not exist in this billing record.',
  hold_not_found:
    '40450 The hold does not exist; capture it within 24 hours after its end, with a token that may use its workspace.',
  call_not_found:
    '40451 No verification with this Idempotency-Key took anything in the last 60 seconds, and none will in the next 60; what an earlier one took goes back by an adjustment.',
  grant_schedule_not_found: '40431 The grant schedule does not exist in this billing record, or was deleted.',
  plan_not_found: '40432 The plan, or that version of it, does not exist in the workspace, or was deleted.',
  webhook_not_found: '40460 The webhook does not exist, or was deleted.',
  webhook_delivery_not_found: '40461 The delivery does not exist for this webhook; they are kept for 30 days.',
  meter_destination_not_found: '40470 The meter destination does not exist, or was deleted.',
  payment_source_not_found: '40480 The payment source does not exist, or was deleted.',
  payment_not_found: '40481 The payment does not exist for this payment source.',
  issuer_not_found: '40420 No team has this issuer, or its JWTs name their team and no URL.',
  method_not_allowed: '40501 The path does not support this method; the Allow header lists those it does.',
  request_timeout: '40801 The request did not arrive in time; send it again.',
  representation_taken: '40901 A scope with this representation already exists in the workspace.',
  billing_exists: '40902 A billing record for this workspace and external meter already exists.',
  key_deleted: '40903 The API key is deleted; only an import of its secret that asks for it brings it back.',
  idempotency_mismatch: '40904 The Idempotency-Key was already used for a different request; use a new one.',
  idempotency_busy: '40905 The first request with this Idempotency-Key is still running; repeat this one in a moment.',
  scope_limit_reached: '40906 A workspace holds at most 1000 scopes; delete one first.',
  workspace_deleted:
    '40907 The workspace of this billing record is deleted; its books can be read and no longer changed.',
  scope_granted:
    '40920 Keys have the scope, and would be able to do something else under another representation; make a new scope and grant that.',
  signing_key_limit_reached:
    '40921 A key set holds at most 100 keys; wait until JWTs of earlier ones have expired, or retire those with retireNow.',
  revocation_limit_reached:
    '40922 At most 10000 JWTs of a team can be revoked before they expire; rotate with retireNow, which ends all of them.',
  issuer_url_unknown:
    '40923 JWTs cannot name a URL as issuer: the operator has not set PUBLIC_API_URL. Choose TEAM_ID, or ask the operator.',
  grant_class_limit_reached:
    '40940 A billing record has at most 16 kinds of grants (priority and end) that have not ended, 70 with those that were paid for; use a priority and an end that it has already, or wait until one ends.',
  grant_pending_limit_reached:
    '40941 A billing record has at most 64 grants that have yet to begin; wait until one begins, or void one.',
  grant_ended_limit_reached:
    '40944 Of a billing record at most 200 grants may end or be voided within 24 hours; repeat the request once that was so for fewer.',
  grant_expired: '40942 The grant has expired; nothing is left of it to void.',
  grant_schedule_limit_reached: '40943 A billing record has at most 10 grant schedules; delete one first.',
  plan_limit_reached: '40945 A workspace has at most 100 plans; delete one first.',
  plan_in_use: '40946 Billing records have the plan, or will have it; give them another one first.',
  key_taken: '40930 The secret is a key already, of another workspace; give out a new one.',
  key_metered: '40931 The API key has a meter, and keeps it; make another key for another meter.',
  grant_unlimited:
    '40932 The billing record of the meter allows overages, so credits of a key would limit nothing; import the key with a meter of its own, or without credits.',
  month_closed:
    '40970 The day lies in a month that is closed, or being closed, and never changes; book it on a later day.',
  month_not_next: '40971 Months are closed one after the other; close the one before first.',
  hold_limit_reached:
    '40950 The billing record has 10000 open holds, the most it can have; capture or release some, or let them expire.',
  call_cancelled: '40952 The verification was cancelled; send a new one with a new Idempotency-Key.',
  not_cancellable:
    '40953 The verification store was started again since the verification, or its key is gone: what it took is not known here any more. Look at its usage, and give it back by an adjustment.',
  hold_settled: '40951 The hold was settled in another way already, and stays so.',
  webhook_limit_reached: '40960 A team has at most 20 webhooks; delete one first.',
  webhook_disabled: '40961 The webhook is disabled; enable it first.',
  webhook_waiting_limit_reached:
    '40962 Too many deliveries of the team are waiting; wait until some are delivered, or delete a webhook that fails.',
  webhook_rotated:
    '40963 The secret was changed within the last 24 hours, and the one before still signs; wait, or send replaceLatest to replace the latest one.',
  meter_destination_limit_reached: '40980 A workspace has at most 10 meter destinations; delete one first.',
  payment_source_limit_reached: '40981 A workspace has at most 10 payment sources; delete one first.',
  body_too_large: '41301 The body is too large; send a smaller one.',
  not_json: '41501 The body must be JSON; send it with Content-Type: application/json.',
  encoded_body: '41502 The body must not be encoded; send it without a Content-Encoding.',
  too_many_failures:
    '42901 Authentication failed too often from your address; send a valid token, which always passes, or wait as long as Retry-After says.',
  too_many_calls:
    '42902 The access token makes too many management calls per second; wait as long as Retry-After says.',
  api_key_rate_limited: '42910 Rate Limited: a temporary block, too many requests.',
  api_key_usage_limited:
    '42911 Usage Limited: a temporary block, credits or a limit on credits do not cover this request.',
  api_key_requests_used_up: '42912 Rate Limited: a temporary block, a limit on requests is used up.',
  api_key_credit_limit: '42913 Usage Limited: a temporary block, a limit on credits does not cover this request.',
  team_too_many_calls:
    '42920 The team makes more requests per second than its quota allows; wait as long as Retry-After says, or ask the operator for more. GET /api/v1/quota tells the limit.',
  too_many_waiting:
    '42921 Too many calls of the team are waiting or unread; wait until some are answered, and read the answers.',
  too_many_exports:
    '42922 The team has two exports under way, or the service as many as it takes; wait until one of them is read.',
  too_many_rotations:
    '42923 The key was given 10 new secrets within an hour; use the latest, or wait as long as Retry-After says.',
  headers_too_large: '43101 The address and headers of the request exceed 16 KiB; send fewer or shorter ones.',
  internal: '50001 Something went wrong on our side; it was logged with the request id.',
  gateway_misconfigured:
    '50002 The request cannot be checked because of a mistake on our side; it was logged with the request id.',
  redis_unavailable:
    '50301 The verification store is unavailable, and nothing was changed; repeat the request in a moment.',
  postgres_unavailable: '50302 The settings store is unavailable; repeat the request in a moment.',
  usage_unavailable: '50303 The usage store is unavailable; repeat the request in a moment.',
  stored_not_in_force:
    '50304 The change is stored but not yet in force; the service will apply it by itself. Repeating it with its Idempotency-Key is safe.',
  undecided:
    '50305 The verification was not decided in time, or its debit was not confirmed: it may have been debited. Repeat it with the same Idempotency-Key, and it is debited once.',
  outbox_full:
    '50306 Usage cannot be recorded right now, so metered verifications are refused; repeat the request in a moment.',
  deadline:
    '50307 The request took too long; repeat it in a moment. Repeating a change with its Idempotency-Key is safe.',
  overloaded:
    '50308 The service receives more verifications than it can decide; this one cost nothing. Repeat it in a moment.',
  postgres_stale:
    '50309 The settings were restored from a backup and are older than those in force, so nothing was stored. An operator must run `npm run restored`.',
  stored_or_not:
    '50310 It is unknown whether the change was stored; it was stored completely or not at all. Repeating it with its Idempotency-Key is safe.',
  api_key_undecided: '50311 The API key cannot be verified right now; repeat the request in a moment.',
  memory_short:
    '50312 The verification store has no memory for anything new, and nothing was stored; changes and deletions go on. Repeat the request later.',
  provider_unavailable:
    '50313 The provider that people sign in at does not answer; try again in a moment, or sign in with an access token.',
} as const satisfies Record<string, `${number} ${string}`>;

export type ErrorName = keyof typeof catalogue;

/** Each error by its name: its code and its message. */
export const errors = Object.fromEntries(
  Object.entries(catalogue).map(([name, line]) => [
    name,
    [Number(line.slice(0, CODE_LENGTH)), line.slice(CODE_LENGTH + 1)],
  ]),
) as Record<ErrorName, [code: number, message: string]>;

/** One wrong place of a request: `path` is a JSON pointer into the body, or the name of a parameter. */
export type ErrorDetail = { path: string; message: string };

type ErrorOptions = { message?: string; details?: ErrorDetail[]; headers?: Record<string, string>; cause?: unknown };

/** A failure from the catalogue. `message` replaces the default text where more can be said. */
export class ApiError extends Error {
  readonly errorName: ErrorName;
  readonly code: number;
  readonly status: number;
  readonly details: ErrorDetail[] | undefined;
  readonly headers: Record<string, string>;

  constructor(name: ErrorName, options: ErrorOptions = {}) {
    const [code, text] = errors[name];
    // Where a refusal was made is told to nobody, and to find it out takes as long as all else of it.
    const { stackTraceLimit } = Error;
    if (code < 50_000) Error.stackTraceLimit = 0;
    super(options.message ?? text, { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.errorName = name;
    this.code = code;
    this.status = Math.floor(code / 100);
    this.details = options.details;
    this.headers = { ...statusHeaders(this.status), ...options.headers };
  }
}

/** A 400 of one field; `path` is its JSON pointer. */
export function invalidField(path: string, message: string): ApiError {
  return new ApiError('invalid_request', {
    message: `The request is not valid: ${path} ${message}.`,
    details: [{ path, message }],
  });
}

/** What was thrown, as the error that a client is told: a store that did not answer in time may do so soon, whatever else is no ApiError is a failure of ours. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  return new ApiError(thrown instanceof NoAnswerError ? 'deadline' : 'internal', { cause: thrown });
}

/** The error envelope of section 7 of the specification. */
export function errorEnvelope(error: ApiError, requestId: string) {
  const { code, message, details } = error;
  return { error: { code, message, requestId, ...(details && { details }) } };
}

function statusHeaders(status: number): Record<string, string> {
  if (status === 401) return { 'WWW-Authenticate': 'Bearer' };
  // No second is needed: who repeats sooner, and ever later, finds what stood still for a moment at work again.
  if (status === 503) return { 'Retry-After': '1', 'Retry-After-Ms': '50' };
  return {};
}
