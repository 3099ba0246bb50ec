import { rateLimitHeaders } from '../../shared/client/refusal.ts';
import { creditLimit, formatCredits, MAX_MICROS, parseCredits } from '../../shared/credits.ts';
import { remember } from '../../shared/remember.ts';

/**
 * What a gateway hands on to the API behind it, by the fields of a decision (see verify.lua). Every header is always
 * there: where there is nothing to say it is empty, so that what the end client sent under its name is replaced.
 */
export function passHeaders(fields: readonly string[], nowMs: number): Record<string, string> {
  const [status = '', , keyPart = '', billingPart = '', used = '', , , , , workspaceId = ''] = fields;
  return {
    ...keyHeaders(keyPart),
    'X-Keytally-Workspace-Id': workspaceId,
    'X-Keytally-Status': status,
    'X-Keytally-Remaining-Credits': used && remainingCredits(billingPart, Number(used.split(' ', 1)[0])),
    ...noLimit,
    ...limitHeaders(fields, nowMs),
  };
}

/** The rate limit of a key that has one, and what is left of it. */
export function limitHeaders(fields: readonly string[], nowMs: number): Record<string, string> {
  const [, , , , , remaining = '', resetAt, , , , limit = ''] = fields;
  if (remaining === '') return {};
  return {
    ...rateLimitHeaders({ remaining: Number(remaining), resetAt: Number(resetAt) }, nowMs),
    'RateLimit-Policy': `"key";q=${limit};w=1`,
    'X-RateLimit-Limit': limit,
  };
}

const noLimit = {
  RateLimit: '',
  'RateLimit-Policy': '',
  'X-RateLimit-Limit': '',
  'X-RateLimit-Remaining': '',
  'X-RateLimit-Reset': '',
};

// A key's part may hold 4 KiB of metadata: few of them are remembered.
const KEYS_REMEMBERED = 1_000;
type KeyPart = { apiKeyId: string; customerId?: string; externalMeterId?: string };
const keyHeaders = remember((keyPart) => {
  const { apiKeyId, customerId = '', externalMeterId = '' } = JSON.parse(`{${keyPart}}`) as KeyPart;
  return {
    'X-Keytally-Key-Id': apiKeyId,
    'X-Keytally-Customer-Id': headerText(customerId),
    'X-Keytally-Meter-Id': headerText(externalMeterId),
  };
}, KEYS_REMEMBERED);

// Empty where use has no limit.
function remainingCredits(billingPart: string, usedMicros: number): string {
  const limit = limitOf(billingPart);
  return limit === MAX_MICROS ? '' : formatCredits(Math.max(0, limit - usedMicros));
}

type BillingPart = { totalCredits: string; allowOverages: boolean; spendCap?: string };
const limitOf = remember((billingPart) => {
  const { totalCredits, allowOverages, spendCap } = JSON.parse(`{${billingPart}}`) as BillingPart;
  const spendCapMicros = spendCap === undefined ? null : parseCredits(spendCap)!;
  return creditLimit({ totalMicros: parseCredits(totalCredits)!, allowOverages, spendCapMicros });
});

// Header values are printable ASCII, without spaces at their ends: all else is percent-encoded.
function headerText(text: string): string {
  return text.replace(/[^!-~]|%/gu, encodeURIComponent);
}
