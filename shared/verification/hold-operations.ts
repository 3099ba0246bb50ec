import { Type, type Static } from 'typebox';
import type { Operation } from '../contract/route.ts';
import { credits, instant, named, object } from '../contract/schema-kinds.ts';
import { billing } from '../contract/schemas.ts';

// What is done to a hold: the api and the verify app both serve it.

export const HOLD_BODY_LIMIT = 16 * 1024;

/** For how long credits may be held. */
export const holdSeconds = { minimum: 1, maximum: 86_400, examples: [60] };

export const holdId = Type.String({
  maxLength: 4096,
  description: 'id of the hold, as the verification answered it',
  examples: ['hold_MDcAd3NfMDFrYWZjNnYzbmYwcXRtaGQ3ZDVyeXgyczk'],
});
/** A hold in answers. */
export const hold = named(
  'Hold',
  object({
    id: holdId,
    credits: credits('what is held'),
    expiresAt: instant('when the hold ends'),
  }),
);

const errors = [
  ...(['hold_not_found', 'hold_settled', 'redis_unavailable', 'undecided', 'outbox_full', 'overloaded'] as const),
] as const;
const shared = { method: 'post', tag: 'Usage', permission: 'key:verify', bodyLimit: HOLD_BODY_LIMIT } as const;

const captureBody = object({ holdId, usage: credits('what it did cost') });
export type CaptureBody = Static<typeof captureBody>;
const capture = named(
  'Capture',
  object({
    holdId,
    usage: credits('what was debited'),
    late: Type.Boolean({ description: 'whether the hold had ended before' }),
    overdrawn: Type.Boolean({ description: 'whether the record has less than it used and holds' }),
  }),
);

/** Debits what a hold did cost. */
export const captureOperation = {
  ...shared,
  path: '/api/v1/usage/capture',
  operationId: 'captureHold',
  summary: 'Capture a hold: debit what the call did cost, and release the rest',
  description:
    'In one step, as one usage event. It may be more than was held, and up to 24 hours after the end of the hold. Repeated with the same usage, it answers the same and debits nothing more.',
  body: captureBody,
  errors: ['credits_too_large', ...errors],
  response: object({ capture, billing }),
} as const satisfies Operation;

const releaseBody = object({ holdId });
export type ReleaseBody = Static<typeof releaseBody>;

/** Gives a hold back. */
export const releaseOperation = {
  ...shared,
  path: '/api/v1/usage/release',
  operationId: 'releaseHold',
  summary: 'Release a hold: debit nothing',
  description:
    'The credits are available again. Repeated, or after the hold was released by its end, it answers the same.',
  body: releaseBody,
  errors,
  response: object({ release: named('Release', object({ holdId })), billing }),
} as const satisfies Operation;

const extendBody = object({
  holdId,
  expiresIn: Type.Integer({ ...holdSeconds, description: 'for how many seconds from now on the credits are held' }),
});
export type ExtendBody = Static<typeof extendBody>;

/** Gives a hold another end. */
export const extendOperation = {
  ...shared,
  path: '/api/v1/usage/extend',
  operationId: 'extendHold',
  summary: 'Extend a hold: give it another end, counted from now',
  description: 'Only while the hold is open. Its id stays the same.',
  body: extendBody,
  errors,
  response: object({ hold, billing }),
} as const satisfies Operation;
