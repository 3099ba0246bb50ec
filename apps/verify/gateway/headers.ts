import { rateLimitHeaders } from '../../../clients/node/refusal.ts';
import { formatCredits } from '../../../shared/values/credits.ts';
import type { Decision, RateLimit } from '../../../shared/verification/decision.ts';
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
    ...limitHeaders(rateLimit, nowMs),
  };
}

/** The tightest limit on requests of a key that has one, and what is left of it. */
export function limitHeaders(rateLimit: RateLimit | undefined, nowMs: number): Record<string, string> {
  if (!rateLimit) return {};
  return {
    ...rateLimitHeaders(rateLimit, nowMs),
    'RateLimit-Policy': `"key";q=${rateLimit.limit};w=${rateLimit.windowSeconds}`,
    'X-RateLimit-Limit': String(rateLimit.limit),
  };
}

/** When to come again after a limit over a window refused: where its window is longer than what refusals say anyway. */
export function retryHeaders({ retryAt }: Decision, nowMs: number): Record<string, string> {
  return retryAt === undefined ? {} : { 'Retry-After': String(Math.max(1, Math.ceil((retryAt - nowMs) / 1000))) };
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
