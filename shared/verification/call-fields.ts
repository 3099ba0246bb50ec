import { hash } from 'node:crypto';
import type { Caller } from '../contract/caller.ts';
import { ApiError } from '../contract/errors.ts';
import { memoize } from '../runtime/memoize.ts';
import { parseCredits } from '../values/credits.ts';
import { newId } from '../values/ids.ts';
import { hideSecrets } from '../values/secrets.ts';
import type { VerifyBody } from './operation.ts';

/** What a call is packed with, whatever was looked up of its key. */
export function fieldsOf(caller: Caller, body: VerifyBody, once: string | undefined, question: string) {
  const costMicros = costOf(body);
  // Fields of an event have the names of shared/events/event.ts.
  const usage = `"c":${costMicros},"n":${JSON.stringify(hideSecrets(body.billing?.usageName ?? 'default'))}`;
  return {
    costMicros,
    idempotencyHash: once === undefined ? '' : hash('sha256', `${caller.tokenId} ${once}`, 'base64url'),
    usageHash: once === undefined ? '' : hash('sha256', usage, 'base64url').slice(0, USAGE_HASH_LENGTH),
    eventStart: `{"i":"${newId('evt')}","r":${JSON.stringify(hideSecrets(body.route ?? ''))},${usage}`,
    question,
  };
}

// 132 bits.
const USAGE_HASH_LENGTH = 22;

const microsOf = memoize(parseCredits);

function costOf(body: VerifyBody): number {
  const micros = microsOf(body.billing?.usage ?? '0');
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000';
  throw new ApiError('invalid_request', { details: [{ path: '/billing/usage', message }] });
}
