import { ApiError } from '../contract/errors.ts';
import { memoize } from '../runtime/memoize.ts';
import { parseCredits } from '../values/credits.ts';
import type { VerifyBody } from './operation.ts';

const microsOf = memoize(parseCredits);

/** What a verification debits, in micro-credits. Throws 400 where that is more than any record can hold. */
export function costOf(body: VerifyBody): number {
  const micros = microsOf(body.billing?.usage ?? '0');
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000';
  throw new ApiError('invalid_request', { details: [{ path: '/billing/usage', message }] });
}
