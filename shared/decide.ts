import { hash } from 'node:crypto';
import type { Static } from 'typebox';
import type { Caller } from './access-token.ts';
import type { Config } from './config.ts';
import { formatCredits, parseCredits } from './credits.ts';
import { ApiError } from './errors.ts';
import { gatherCalls } from './gather.ts';
import { idempotencyKey } from './idempotency-key.ts';
import { newId } from './ids.ts';
import { addressBits } from './ip.ts';
import { hashKeyText, keyShard } from './key-text.ts';
import { keyspace, packFields, unpack } from './keyspace.ts';
import type { Metrics } from './metrics.ts';
import type { RedisLink } from './redis.ts';
import { remember } from './remember.ts';
import { flagBits, scopeEntryOf, type billing } from './schemas.ts';
import type { Status, VerifyBody } from './verify.ts';
import type { Witnesses } from './witnesses.ts';

/** A decided verification: its status, the whole answer as JSON text, and what it was made from (see verify.lua). */
export type Decision = { status: Status; body: string; fields: readonly string[] };
export type VerifyCall = {
  caller: Caller;
  body: VerifyBody;
  clientAddress: string;
  idempotencyKey: string | undefined;
};
export type Verify = (call: VerifyCall) => Promise<Decision>;
export type Verifier = {
  verify: Verify;
  /** Whether one more would be decided now: one that would not need not be read. */
  hasRoom(): boolean;
};

type Parts = {
  link: RedisLink;
  outboxFull(): boolean;
  witness: Witnesses['remember'];
  config: Pick<Config, 'VERIFY_DEADLINE_MS' | 'VERIFY_MAX_WAITING'>;
  metrics: Metrics;
};

/**
 * Decides verifications by the verify script; what was not decided in time costs nothing later. `outboxFull` tells
 * whether events may be recorded; `witness` is told of each debit; after `VERIFY_DEADLINE_MS` a call is a 503, and so is
 * at once what comes on top of `VERIFY_MAX_WAITING`: an answer that would come late helps nobody and costs all others.
 */
export function makeVerifier({ link, outboxFull, witness, config, metrics }: Parts): Verifier {
  const run = gatherCalls(link, outboxFull, config.VERIFY_DEADLINE_MS);
  let deciding = 0;

  async function verify(call: VerifyCall): Promise<Decision> {
    if (!hasRoom()) throw new ApiError('overloaded');
    deciding += 1;
    try {
      const decided = await decide(call);
      metrics.verifications.inc({ status: decided.status });
      if (decided.status === 'VALID' && outboxFull()) metrics.unrecorded.inc();
      return decided;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 503) throw error;
      metrics.verifications.inc({ status: 'UNDECIDED' });
      // An answer that was lost may have been a debit: unlike elsewhere, "nothing was stored" would be too much to say.
      throw error.errorName === 'redis_away' ? new ApiError('undecided', { cause: error }) : error;
    } finally {
      deciding -= 1;
    }
  }

  function hasRoom(): boolean {
    return deciding < config.VERIFY_MAX_WAITING;
  }

  async function decide({ caller, body, clientAddress, idempotencyKey: given }: VerifyCall): Promise<Decision> {
    const once = idempotencyKey(given);
    const shard = keyShard(body.key);
    if (shard === undefined) return refusal(body, 'MALFORMED');
    const { route = '', requestedScopes = [] } = body;
    const cost = costMicros(body);
    const parts = [
      caller.teamId,
      caller.workspaceIds ? ` ${caller.workspaceIds.join(' ')} ` : '',
      bitsOf(body.ip ?? clientAddress),
      cost,
      `"i":"${newId('evt')}","r":${JSON.stringify(route)}`,
      `"c":${cost},"n":${JSON.stringify(body.billing?.usageName ?? 'default')}`,
      once === undefined ? '' : hash('sha256', `${caller.tokenId} ${once}`, 'base64url'),
      requestedScopes.map((scope) => `${scope.representation} ${flagBits(scope)}`).join(' '),
    ];
    const keyHash = hashKeyText(body.key);
    const text = await run({ shard, key: keyspace.keyText(shard, keyHash), packed: packFields(parts) });
    // See verify.lua for the fields of its text.
    const fields = text.split('\x1f');
    const [usedMicros = '', epoch, number] = fields[4]?.split(' ') ?? [];
    if (number !== undefined) {
      const debit = { epoch: Number(epoch), number: Number(number), usedMicros: Number(usedMicros) };
      witness(billingIdOf(fields), { shard, keyHash, ...debit });
    }
    return decision(fields, usedMicros, body);
  }

  return { verify, hasRoom };
}

const microsOf = remember(parseCredits);
const bitsOf = remember((address) => addressBits(address) ?? '');

function costMicros(body: VerifyBody): number {
  const micros = microsOf(body.billing?.usage ?? '0');
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000';
  throw new ApiError('invalid_request', { details: [{ path: '/billing/usage', message }] });
}

// The billing record's part of an answer begins with its id.
function billingIdOf([, , , billingPart = '']: string[]): string {
  return billingPart.slice('"id":"'.length, billingPart.indexOf('",'));
}

function decision(fields: string[], usedMicros: string, body: VerifyBody): Decision {
  const [status = '', reason = '', keyPart, billingPart, , remaining, resetAt, flags = '', scopes = ''] = fields;
  switch (status) {
    case 'CONFLICT':
      throw new ApiError('idempotency_mismatch');
    case 'OUTBOX_FULL':
      throw new ApiError('outbox_full');
    case 'CLOSED':
    case 'LATE':
    case 'CORRUPT':
      throw new ApiError('undecided', { cause: new Error(`the verify script answered ${status} ${reason}`) });
  }
  if (keyPart === undefined) return refusal(body, reason);

  // The parts of the key and of the billing record were made when they were stored; only what changes is made here.
  const why = reason === 'CREDITS_USED_UP' && isCapped(billingPart) ? 'SPEND_CAP_REACHED' : reason;
  let json = `{"status":"${status}",${keyPart},"scopes":${heldScopes(`${flags}\x1f${scopes}`)}`;
  if (why) json += `,"reason":"${why}"`;
  if (body.requestedScopes) json += `,"requestedScopes":${JSON.stringify(body.requestedScopes)}`;
  if (usedMicros) json += `,"billing":{${billingPart},"usedCredits":"${formatCredits(Number(usedMicros))}"}`;
  if (remaining) json += `,"rateLimit":{"remaining":${remaining},"resetAt":${resetAt}}`;
  return { status: status as Status, body: `${json}}`, fields };
}

// Few sets of scopes are held by many keys.
const heldScopes = remember((text) => {
  const [flags = '', records = ''] = text.split('\x1f');
  const bits = JSON.parse(flags) as number[];
  const scopes = records.split('\x1e').flatMap((record, i) => {
    const [, representation, id] = unpack(record);
    return representation && id ? [scopeEntryOf(representation, bits[i]!, id)] : [];
  });
  return JSON.stringify(scopes);
});

// Whether what a billing record may use ends at its spend cap, and not at the credits that were bought.
function isCapped(billingPart = ''): boolean {
  const record = JSON.parse(`{${billingPart}}`) as Pick<
    Static<typeof billing>,
    'totalCredits' | 'allowOverages' | 'spendCap'
  >;
  const cap = parseCredits(record.spendCap ?? '');
  return cap !== undefined && (record.allowOverages || cap < parseCredits(record.totalCredits)!);
}

function refusal({ requestedScopes }: VerifyBody, reason: string): Decision {
  return {
    status: 'INVALID',
    fields: ['INVALID', reason],
    body: JSON.stringify({ status: 'INVALID', reason, ...(requestedScopes && { requestedScopes }) }),
  };
}
