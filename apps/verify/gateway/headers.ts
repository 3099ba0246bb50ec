import { rateLimitHeaders } from '../../../clients/node/refusal.ts';
import { formatCredits, MAX_MICROS } from '../../../shared/values/credits.ts';
import type { Decision, Found } from '../../../shared/verification/decision.ts';
import type { Finding } from '../../../shared/verification/lookup-cache.ts';
import { memoize } from '../../../shared/runtime/memoize.ts';

/**
 * The headers that a gateway passes on to the API. Every header is always there, empty without a value, so that it
 * replaces what the end client sent under its name.
 */
export function passHeaders({ status, found }: Decision, nowMs: number): Record<string, string> {
  const { finding, usedMicros, rateLimit } = found ?? {};
  return {
    ...keyHeaders(finding?.head ?? ''),
    'X-Keytally-Workspace-Id': finding?.workspaceId ?? '',
    'X-Keytally-Status': status,
    'X-Keytally-Remaining-Credits': finding && usedMicros !== undefined ? remainingCredits(finding, usedMicros) : '',
    ...noLimit,
    ...limitHeaders(rateLimit, nowMs),
  };
}

/** The rate limit of a key, and what is left of it; nothing if the key has no limit. */
export function limitHeaders(rateLimit: Found['rateLimit'], nowMs: number): Record<string, string> {
  if (!rateLimit) return {};
  return {
    ...rateLimitHeaders(rateLimit, nowMs),
    'RateLimit-Policy': `"key";q=${rateLimit.limit};w=1`,
    'X-RateLimit-Limit': String(rateLimit.limit),
  };
}

const noLimit = {
  RateLimit: '',
  'RateLimit-Policy': '',
  'X-RateLimit-Limit': '',
  'X-RateLimit-Remaining': '',
  'X-RateLimit-Reset': '',
};

// A head may hold 4 KiB of metadata, so only a few are remembered.
const KEYS_REMEMBERED = 1_000;
type KeyPart = { apiKeyId: string; customerId?: string; externalMeterId?: string };
const keyHeaders = memoize((head) => {
  const { apiKeyId, customerId = '', externalMeterId = '' } = JSON.parse(`{${head}}`) as KeyPart;
  return {
    'X-Keytally-Key-Id': apiKeyId,
    'X-Keytally-Customer-Id': headerText(customerId),
    'X-Keytally-Meter-Id': headerText(externalMeterId),
  };
}, KEYS_REMEMBERED);

// Empty if usage has no limit.
function remainingCredits({ limitMicros }: Finding, usedMicros: number): string {
  return limitMicros === MAX_MICROS ? '' : formatCredits(Math.max(0, limitMicros - usedMicros));
}

// Header values are printable ASCII without spaces at either end: all else is percent-encoded.
function headerText(text: string): string {
  return text.replace(/[^!-~]|%/gu, encodeURIComponent);
}
