import { Type } from 'typebox';
import { ApiError } from '../../../shared/contract/errors.ts';

// The last millisecond of the year 9999: what lies beyond can't be written as RFC 3339.
const LAST_INSTANT = 253_402_300_799_999;

/** When something that is to be made or changed expires. */
export const expiresAtInput = Type.Integer({
  maximum: LAST_INSTANT,
  description: 'when it expires, in Unix milliseconds; in the future',
  examples: [4_102_444_800_000],
});

/** Throws 400 for an instant that is over; seconds that were taken for milliseconds are always long over, and are told. */
export function requireFuture(expiresAt: number, nowMs: number): void {
  if (expiresAt > nowMs) return;
  // As milliseconds it would lie in the first years of the seventies, which nobody means.
  const inSeconds = expiresAt > 100_000_000 && expiresAt < nowMs / 10;
  const hint = inSeconds ? ' The given value looks like seconds; multiply it by 1000.' : '';
  throw new ApiError('expires_at_past', {
    message: `expiresAt must lie in the future, in Unix milliseconds.${hint}`,
    details: [{ path: '/expiresAt', message: 'must lie in the future, in Unix milliseconds' }],
  });
}
