import { createHash } from 'node:crypto';
import { Type, type Static } from 'typebox';
import type { Caller } from './access-token.ts';
import { formatCredits, parseCredits } from './credits.ts';
import { ApiError } from './errors.ts';
import { exampleOf } from './example.ts';
import { idempotencyKey } from './idempotency-key.ts';
import { newId } from './ids.ts';
import { addressBits } from './ip.ts';
import { hashKeyText, keyShard } from './key-text.ts';
import { keyspace } from './keyspace.ts';
import type { Metrics } from './metrics.ts';
import type { RedisLink } from './redis.ts';
import type { Operation } from './route.ts';
import {
  billing,
  credits,
  customerId,
  externalMeterId,
  flagBits,
  id,
  instant,
  metadata,
  object,
  scopeEntries,
  scopeEntry,
  scopeEntryOf,
  secretText,
  textOf,
} from './schemas.ts';

export const statuses = [
  'VALID',
  'EXPIRED',
  'DISABLED',
  'DELETED',
  'RATE_LIMITED',
  'USAGE_LIMITED',
  'INVALID_SCOPES',
  'INVALID',
] as const;
export type Status = (typeof statuses)[number];

/** Why a key is refused, in one word. */
export const reasons = [
  'MALFORMED',
  'NOT_FOUND',
  'DELETED',
  'DISABLED',
  'EXPIRED',
  'IP_NOT_ALLOWED',
  'SCOPE_MISSING',
  'RATE_LIMIT',
  'CREDITS_USED_UP',
  'SPEND_CAP_REACHED',
  'NO_BILLING_RECORD',
] as const;

/** How people read a status (specification, section 3); the two limits are temporary blocks. */
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

export const VERIFY_PATH = '/api/v1/api-key/verify';
export const VERIFY_BODY_LIMIT = 16 * 1024;

export const verifyBody = object({
  key: secretText('the key to verify', 'acme'),
  requestedScopes: Type.Optional(scopeEntries),
  route: Type.Optional(
    Type.String({
      maxLength: 1024,
      pattern: '^[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*$',
      description: 'recorded with the event',
      examples: ['GET /documents'],
    }),
  ),
  billing: Type.Optional(
    object({
      usage: Type.Optional(credits('what this call costs', { default: '0' })),
      usageName: Type.Optional(Type.String({ ...textOf(128, 'what is counted', 'tokens'), default: 'default' })),
    }),
  ),
  ip: Type.Optional(
    Type.String({ format: 'ip', description: "the end client's address, for allow lists", examples: ['203.0.113.9'] }),
  ),
});
export type VerifyBody = Static<typeof verifyBody>;

const answered = {
  status: Type.Enum([...statuses]),
  apiKeyId: Type.Optional(id('API key')),
  customerId: Type.Optional(customerId),
  externalMeterId: Type.Optional(externalMeterId),
  expiresAt: Type.Optional(instant('when the key expires')),
  requestedScopes: Type.Optional(Type.Array(scopeEntry)),
  scopes: Type.Optional(Type.Array(scopeEntry)),
  billing: Type.Optional(billing),
  rateLimit: Type.Optional(
    object({
      remaining: Type.Integer({ minimum: 0, description: "what is left of this second's allowance", examples: [99] }),
      resetAt: instant('when the allowance is whole again'),
    }),
  ),
  metadata: Type.Optional(metadata),
};
const reason = Type.Enum([...reasons], { description: 'why the key was refused; absent when it is VALID' });
export const verifyResponse = object(
  { ...answered, reason: Type.Optional(reason) },
  { examples: [exampleOf(object(answered))] },
);

/** The operation, which the api and the verify app both serve. */
export const verifyOperation = {
  method: 'post',
  path: VERIFY_PATH,
  tag: 'API keys',
  summary: 'Verify an API key and debit its cost',
  permission: 'key:verify',
  body: verifyBody,
  bodyLimit: VERIFY_BODY_LIMIT,
  idempotent: true,
  errors: ['idempotency_mismatch', 'redis_away', 'undecided', 'outbox_full'],
  response: verifyResponse,
} as const satisfies Operation;

/** A decided verification: its status, and the whole answer as JSON text. */
export type Decision = { status: Status; body: string };
export type VerifyCall = {
  caller: Caller;
  body: VerifyBody;
  clientAddress: string;
  idempotencyKey: string | undefined;
};
export type Verify = (call: VerifyCall) => Promise<Decision>;

/**
 * Decides verifications: one script call each; what was not decided in time costs nothing later.
 * `outboxFull` tells whether events may be recorded; after `deadlineMs` a call is a 503.
 */
export function makeVerify(link: RedisLink, outboxFull: () => boolean, deadlineMs: number, metrics: Metrics): Verify {
  return async function verify(call) {
    try {
      const full = outboxFull();
      const decided = await decide(call, full);
      metrics.verifications.inc({ status: decided.status });
      if (full && decided.status === 'VALID') metrics.unrecorded.inc();
      return decided;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 503) throw error;
      metrics.verifications.inc({ status: 'UNDECIDED' });
      // An answer that was lost may have been a debit: unlike elsewhere, "nothing was stored" would be too much to say.
      throw error.errorName === 'redis_away' ? new ApiError('undecided', { cause: error }) : error;
    }
  };

  async function decide(call: VerifyCall, full: boolean): Promise<Decision> {
    const { caller, body, clientAddress, idempotencyKey: given } = call;
    const key = idempotencyKey(given);
    const shard = keyShard(body.key);
    if (shard === undefined) return refuse(body, 'MALFORMED');
    const node = link.node(shard);
    const hash = hashKeyText(body.key);
    const keys = [keyspace.meta(shard), keyspace.keyText(shard, hash), keyspace.outbox(shard)];
    const args = [
      node.runId(),
      node.notAfter(deadlineMs),
      caller.teamId,
      caller.workspaceIds ? ` ${caller.workspaceIds.join(' ')} ` : '',
      addressBits(body.ip ?? clientAddress) ?? '',
      costMicros(body),
      body.billing?.usageName ?? 'default',
      body.route ?? '',
      newId('evt'),
      full ? '1' : '',
      key === undefined ? '' : createHash('sha256').update(`${caller.tokenId} ${key}`).digest('base64url'),
    ];
    for (const scope of body.requestedScopes ?? []) args.push(scope.representation, flagBits(scope));
    return decision(await node.script('verify', keys, args, deadlineMs), body);
  }
}

function costMicros(body: VerifyBody): number {
  const micros = parseCredits(body.billing?.usage ?? '0');
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000';
  throw new ApiError('invalid_request', { details: [{ path: '/billing/usage', message }] });
}

function decision(answer: string[], body: VerifyBody): Decision {
  const [status = '', , reason = '', keyPart, billingPart, used = '', remaining, resetAt, ...scopes] = answer;
  switch (status) {
    case 'CONFLICT':
      throw new ApiError('idempotency_mismatch');
    case 'OUTBOX_FULL':
      throw new ApiError('outbox_full');
    case 'CLOSED':
    case 'LATE':
    case 'CORRUPT':
      throw new ApiError('undecided', { cause: new Error(`the verify script answered ${status}`) });
  }
  if (keyPart === undefined) return refuse(body, reason);

  // The parts of the key and of the billing record were made when they were stored; only what changes is made here.
  const why = reason === 'CREDITS_USED_UP' && isCapped(billingPart) ? 'SPEND_CAP_REACHED' : reason;
  const parts = [`"status":"${status}"`, keyPart, `"scopes":${JSON.stringify(heldScopes(scopes))}`];
  if (why) parts.push(`"reason":"${why}"`);
  if (body.requestedScopes) parts.push(`"requestedScopes":${JSON.stringify(body.requestedScopes)}`);
  if (used) parts.push(`"billing":{${billingPart},"usedCredits":"${formatCredits(Number(used))}"}`);
  if (remaining) parts.push(`"rateLimit":{"remaining":${remaining},"resetAt":${resetAt}}`);
  return { status: status as Status, body: `{${parts.join(',')}}` };
}

// Whether what a billing record may use ends at its spend cap, and not at the credits that were bought.
function isCapped(billingPart = ''): boolean {
  const record = JSON.parse(`{${billingPart}}`) as Pick<
    Static<typeof billing>,
    'totalCredits' | 'allowOverages' | 'spendCap'
  >;
  const cap = parseCredits(record.spendCap ?? '');
  return cap !== undefined && (record.allowOverages || cap < parseCredits(record.totalCredits)!);
}

function refuse(body: VerifyBody, reason: string): Decision {
  const { requestedScopes } = body;
  return {
    status: 'INVALID',
    body: JSON.stringify({ status: 'INVALID', reason, ...(requestedScopes && { requestedScopes }) }),
  };
}

function heldScopes(flat: string[]) {
  const scopes = [];
  for (let i = 0; i < flat.length; i += 3) scopes.push(scopeEntryOf(flat[i + 1]!, Number(flat[i]), flat[i + 2]!));
  return scopes;
}
