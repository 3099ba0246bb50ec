import { rateLimitHeaders } from '../../../clients/node/refusal.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import type { Decision } from '../../../shared/verification/decision.ts';
import { memoize } from '../../../shared/runtime/memoize.ts';

/**
 * The headers that a gateway passes on to the API. Every header is always there, empty without a value, so that it
 * replaces what the end client sent under its name.
 */
export function passHeaders(decision: Decision, nowMs: number, holdId = ''): Record<string, string> {
  const { status, lookup, rateLimit } = decision;
  return {
    ...keyHeaders(lookup?.keyPart ?? ''),
    'X-Keytally-Workspace-Id': lookup?.workspaceId ?? '',
    'X-Keytally-Status': status,
    'X-Keytally-Remaining-Credits': remainingCredits(decision),
    'X-Keytally-Hold-Id': holdId,
    ...noLimit,
    ...rateLimitHeaders(rateLimit, nowMs),
  };
}

const noLimit = {
  RateLimit: '',
  'RateLimit-Policy': '',
  'X-RateLimit-Limit': '',
  'X-RateLimit-Remaining': '',
  'X-RateLimit-Reset': '',
};

// A key's part of an answer may hold 4 KiB of metadata: few of them are remembered.
const KEYS_REMEMBERED = 1_000;
type KeyPart = { apiKeyId: string; customerId?: string; externalMeterId?: string };
const keyHeaders = memoize((keyPart) => {
  const { apiKeyId, customerId = '', externalMeterId = '' } = JSON.parse(`{${keyPart}}`) as KeyPart;
  return {
    'X-Keytally-Key-Id': apiKeyId,
    'X-Keytally-Customer-Id': headerText(customerId),
    'X-Keytally-Meter-Id': headerText(externalMeterId),
  };
}, KEYS_REMEMBERED);

// Empty if usage has no limit.
function remainingCredits({ leftMicros }: Decision): string {
  return leftMicros === undefined ? '' : formatCredits(Math.max(0, leftMicros));
}

// Header values are printable ASCII without spaces at either end: all else is percent-encoded.
function headerText(text: string): string {
  return text.replace(/[^!-~]|%/gu, encodeURIComponent);
}
