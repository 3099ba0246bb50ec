import { hash } from 'node:crypto';
import type { Caller } from '../contract/caller.ts';
import { invalidField } from '../contract/errors.ts';
import { tracePart } from '../events/carried-trace.ts';
import { memoize } from '../runtime/memoize.ts';
import { parseCredits } from '../values/credits.ts';
import { newId } from '../values/ids.ts';
import { hideSecrets } from '../values/secrets.ts';
import type { VerifyBody } from './operation.ts';

type AskedCall = { caller: Caller; body: VerifyBody; once: string | undefined; question: string; trace: string };

/** What a call is packed with, whatever was looked up of its key, and the start of its event's JSON, to the end of cost and usage name. */
export function fieldsOf({ caller, body, once, question, trace }: AskedCall) {
  const { hold } = body.billing ?? {};
  const costMicros = costOf(body);
  const id = newId('evt');
  // Fields of an event have the names of shared/events/event.ts.
  const name = usageNameOf(body);
  const route = `"r":${JSON.stringify(hideSecrets(body.route ?? ''))}`;
  const usage = `"c":${hold ? 0 : costMicros},"n":${JSON.stringify(name)}`;
  const asked = hold && [costMicros, hold.expiresIn * 1_000, hold.onExpiry ?? 'release'];
  const hashed = asked ? `${usage} ${asked.join(' ')}` : usage;
  const fields = {
    // verify.lua says what it is of a hold.
    costMicros: asked ? `@${[...asked, id.slice('evt_'.length), name].join('\x1f')}` : costMicros,
    idempotencyHash: once === undefined ? '' : idempotencyHashOf(caller, once),
    usageHash: once === undefined ? '' : hash('sha256', hashed, 'base64url').slice(0, USAGE_HASH_LENGTH),
    question,
  };
  return { fields, event: `{${hold ? '"x":"hold",' : ''}"i":"${id}",${tracePart(trace)}${route},${usage}` };
}

/** By what the script knows an Idempotency-Key: that of another access token is another one. */
export function idempotencyHashOf({ tokenId }: Caller, once: string): string {
  return hash('sha256', `${tokenId} ${once}`, 'base64url');
}

/** What a call costs, or would hold, in micro-credits. */
export function costOf(body: VerifyBody): number {
  const micros = microsOf(body.billing?.usage ?? '0');
  if (micros !== undefined) return micros;
  throw invalidField('/billing/usage', 'must be at most 9000000000');
}

/** What a call is counted as. */
export function usageNameOf(body: VerifyBody): string {
  return hideSecrets(body.billing?.usageName ?? 'default');
}

// 132 bits.
const USAGE_HASH_LENGTH = 22;

const microsOf = memoize(parseCredits);
