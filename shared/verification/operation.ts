import { Type, type Static } from 'typebox';
import { exampleOf } from '../contract/example.ts';
import type { Operation } from '../contract/route.ts';
import { hold, holdSeconds } from './hold-operations.ts';
import { credits, id, instant, named, object, secretText, usageName } from '../contract/schema-kinds.ts';
import {
  answeredScopes,
  billing,
  customerId,
  errorSchema,
  externalMeterId,
  metadata,
  scopeEntries,
} from '../contract/schemas.ts';
import { limitedByLimit, limitStates } from '../contract/limits.ts';

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

/** Why a key is refused. */
export const reasons = [
  'MALFORMED',
  'NOT_FOUND',
  'DELETED',
  'DISABLED',
  'EXPIRED',
  'IP_NOT_ALLOWED',
  'SCOPE_MISSING',
  'RATE_LIMIT',
  'LIMIT_REACHED',
  'CREDITS_USED_UP',
  'SPEND_CAP_REACHED',
  'NO_BILLING_RECORD',
] as const;

/** How a status is shown to people (specification, section 3). The two limits are temporary blocks. */
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
export const VERIFY_BATCH_PATH = `${VERIFY_PATH}/batch`;
export const VERIFY_BATCH_BODY_LIMIT = 256 * 1024;
const MOST_VERIFICATIONS = 100;

const holdOptions = named(
  'HoldOptions',
  object({
    expiresIn: Type.Integer({ ...holdSeconds, description: 'for how many seconds the credits are held' }),
    onExpiry: Type.Optional(
      Type.Enum(['release', 'charge'], {
        default: 'release',
        description: 'what becomes of the credits where nobody captures or releases them in time',
      }),
    ),
  }),
);

export const verifyBody = named(
  'Verification',
  object({
    key: secretText('the key to verify', 'acme'),
    requestedScopes: Type.Optional(scopeEntries),
    route: Type.Optional(
      Type.String({
        maxLength: 1024,
        'x-max-bytes': 1024,
        pattern: '^[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*$',
        description: 'recorded with the event; at most 1024 bytes in UTF-8',
        examples: ['GET /documents'],
      }),
    ),
    billing: Type.Optional(
      object({
        usage: Type.Optional(credits('what this call costs', { default: '0' })),
        usageName: Type.Optional(Type.String({ ...usageName('what is counted'), default: 'default' })),
        hold: Type.Optional(holdOptions),
      }),
    ),
    ip: Type.Optional(
      Type.String({
        format: 'ip',
        description: "the end client's address, for allow lists",
        examples: ['203.0.113.9'],
      }),
    ),
  }),
);
export type VerifyBody = Static<typeof verifyBody>;

const answered = {
  status: Type.Enum([...statuses]),
  apiKeyId: Type.Optional(id('API key')),
  customerId: Type.Optional(customerId),
  externalMeterId: Type.Optional(externalMeterId),
  expiresAt: Type.Optional(instant('when the key expires')),
  requestedScopes: Type.Optional(answeredScopes),
  scopes: Type.Optional(answeredScopes),
  billing: Type.Optional(billing),
  hold: Type.Optional(hold),
  rateLimit: Type.Optional(
    object({
      remaining: Type.Integer({
        minimum: 0,
        description: 'what is left of the tightest limit on requests',
        examples: [99],
      }),
      resetAt: instant('when that allowance is whole again'),
      limit: Type.Integer({ minimum: 1, description: 'that limit', examples: [100] }),
      windowSeconds: Type.Integer({ minimum: 1, description: 'the length of its window', examples: [1] }),
    }),
  ),
  limits: Type.Optional(limitStates),
  metadata: Type.Optional(metadata),
};
const reason = Type.Enum([...reasons], { description: 'why the key was refused; absent when it is VALID' });
const limitedBy = Type.Optional(limitedByLimit);
export const verifyResponse = named(
  'Decision',
  object(
    { ...answered, reason: Type.Optional(reason), limitedBy },
    { examples: [exampleOf(object(answered), 'verification')] },
  ),
);

/** The operation: the api and the verify app both serve it. */
export const verifyOperation = {
  method: 'post',
  path: VERIFY_PATH,
  tag: 'API keys',
  operationId: 'verifyKey',
  summary: 'Verify an API key and debit its cost',
  description:
    'Decides by the settings, rate and credits of the key, and debits in the same step. A refusal is an answer: its `status` says which, its `reason` why. What a 503 has not debited by then is never debited later; whether a 50305 or a call whose connection was lost was debited is unknown until it is asked again with its `Idempotency-Key`.',
  permission: 'key:verify',
  body: verifyBody,
  bodyLimit: VERIFY_BODY_LIMIT,
  patient: true,
  idempotent: true,
  errors: [
    'idempotency_mismatch',
    'call_cancelled',
    'hold_limit_reached',
    'memory_short',
    'redis_unavailable',
    'undecided',
    'outbox_full',
    'overloaded',
  ],
  response: verifyResponse,
} as const satisfies Operation;

/** A verification of a batch. */
export const batchedVerification = named(
  'BatchedVerification',
  object({
    ...verifyBody.properties,
    idempotencyKey: Type.Optional(
      Type.String({
        pattern: '^[!-~][ -~]{0,254}$',
        description: 'makes repeating this verification safe, as the header Idempotency-Key does for a single one',
        examples: ['request-1'],
      }),
    ),
  }),
);
export type BatchedVerification = Static<typeof batchedVerification>;

const counted = { minItems: 1, maxItems: MOST_VERIFICATIONS };
const verifyBatchBody = object({ verifications: Type.Array(batchedVerification, counted) });
/** What must be right for the whole batch: each verification is checked by itself. */
export const verifyBatchOuterBody = object({ verifications: Type.Array(Type.Unknown(), counted) });

const { code, message, details } = errorSchema.properties.error.properties;
const failed = named('FailedVerification', object({ error: object({ code, message, details }) }));
const verifyBatchResponse = object({
  results: Type.Array(Type.Union([verifyResponse, failed], { examples: [exampleOf(verifyResponse, 'verification')] }), {
    ...counted,
    description: 'in the order of the verifications: what each alone would be answered, or its error',
  }),
});

/** The operation of many verifications at once: the api and the verify app both serve it. */
export const verifyBatchOperation = {
  method: 'post',
  path: VERIFY_BATCH_PATH,
  tag: 'API keys',
  operationId: 'verifyKeys',
  summary: 'Verify up to 100 API keys and debit their costs, each by itself',
  description:
    'Each verification is answered as if it had come alone, in order: by its decision or by its own error. One with an `idempotencyKey` can be repeated safely.',
  patient: true,
  permission: 'key:verify',
  body: verifyBatchBody,
  accepts: verifyBatchOuterBody,
  bodyLimit: VERIFY_BATCH_BODY_LIMIT,
  errors: ['redis_unavailable', 'undecided', 'overloaded'],
  response: verifyBatchResponse,
} as const satisfies Operation;

export const CANCEL_PATH = `${VERIFY_PATH}/cancel`;

const cancelBody = object({
  key: secretText('the key that was verified', 'acme'),
  idempotencyKey: Type.String({
    ...batchedVerification.properties.idempotencyKey,
    description: 'the Idempotency-Key of the verification, sent with the same access token',
  }),
});
export type CancelBody = Static<typeof cancelBody>;

/** Cancels a verification: the api and the verify app both serve it. */
export const cancelOperation = {
  method: 'post',
  path: CANCEL_PATH,
  tag: 'API keys',
  operationId: 'cancelVerification',
  summary: 'Cancel a verification: give back what it took, or keep it from happening',
  description:
    'For a verification whose outcome stayed unknown, or whose service then failed, within 60 seconds. Its credits, its part of limits and rate, or its hold are given back, once, on the day they were taken; its event stays in the books with a line that takes the credits back. One that has not come yet is refused with 40952 if it comes. Repeated within 60 seconds, the answer is the same. A 40451 says that the Idempotency-Key took nothing in the last 60 seconds, and that a verification with it is refused for 60 more: what was taken earlier goes back by an adjustment.',
  permission: 'key:verify',
  body: cancelBody,
  bodyLimit: VERIFY_BODY_LIMIT,
  errors: [
    'call_not_found',
    'not_cancellable',
    'memory_short',
    'redis_unavailable',
    'undecided',
    'outbox_full',
    'overloaded',
  ],
  response: object({
    cancellation: named('Cancellation', object({ credits: credits('what was given back: debited, or held') })),
  }),
} as const satisfies Operation;
