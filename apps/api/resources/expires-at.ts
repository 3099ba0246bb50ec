import { Type } from 'typebox';
import { ApiError } from '../../../shared/contract/errors.ts';

// The last millisecond of the year 9999: RFC 3339 cannot express a later instant.
export const LAST_INSTANT = 253_402_300_799_999;

/** The expiry that a request sets. */
export const expiresAtInput = Type.Integer({
  maximum: LAST_INSTANT,
  description: 'when it expires, in Unix milliseconds; in the future',
  examples: [4_102_444_800_000],
});

/** Throws 400 for an instant in the past. Seconds instead of milliseconds always lie there; the message then says so. */
export function requireFuture(expiresAt: number, nowMs: number): void {
  if (expiresAt > nowMs) return;
  // As milliseconds the value would lie in the early 1970s, which nobody means.
  const inSeconds = expiresAt > 100_000_000 && expiresAt < nowMs / 10;
  const hint = inSeconds ? ' The given value looks like seconds; multiply it by 1000.' : '';
  throw new ApiError('expires_at_past', {
    message: `expiresAt must lie in the future, in Unix milliseconds.${hint}`,
    details: [{ path: '/expiresAt', message: 'must lie in the future, in Unix milliseconds' }],
  });
}
