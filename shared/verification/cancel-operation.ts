import { Type, type Static } from 'typebox';
import type { Operation } from '../contract/route.ts';
import { credits, named, object, secretText } from '../contract/schema-kinds.ts';
import { batchedVerification, VERIFY_BODY_LIMIT, VERIFY_PATH } from './operation.ts';

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
