import { hash } from 'node:crypto';
import type { Caller } from '../contract/caller.ts';
import { ApiError } from '../contract/errors.ts';
import { idempotencyKey } from '../http/idempotency-key.ts';
import { memoize } from '../runtime/memoize.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { Config } from '../runtime/variables.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { parseCredits } from '../values/credits.ts';
import { newId } from '../values/ids.ts';
import { addressBits } from '../values/ip.ts';
import { hashKeyText, keyShard } from '../values/key-text.ts';
import { hideSecrets } from '../values/secrets.ts';
import { decisionFrom, refusal, type Decision } from './decision.ts';
import { makeLookupCache } from './lookup-cache.ts';
import type { VerifyBody } from './operation.ts';
import { batchScriptCalls } from './script-batches.ts';
import { NO_LOOKUP, packCall, packQuestion } from './script-protocol.ts';
import type { Witnesses } from './witnesses.ts';

export type VerifyCall = {
  caller: Caller;
  body: VerifyBody;
  clientAddress: string;
  idempotencyKey: string | undefined;
};
export type Verify = (call: VerifyCall) => Promise<Decision>;
export type Verifier = {
  verify: Verify;
  /** Whether one more call would be decided now; if not, its body need not even be read. */
  hasRoom(): boolean;
};

type VerifierOptions = {
  redis: ShardedRedis;
  outboxFull(): boolean;
  witness: Witnesses['remember'];
  config: Pick<Config, 'VERIFY_DEADLINE_MS' | 'VERIFY_MAX_WAITING'>;
  metrics: Metrics;
};

/**
 * Decides verifications by the verify script. A call that was not decided in time costs nothing later. `outboxFull` says
 * whether events can be recorded; `witness` learns of each debit. A call becomes a 503 after `VERIFY_DEADLINE_MS`, and at once
 * while `VERIFY_MAX_WAITING` others are being decided: a late answer helps nobody and delays all others.
 */
export function makeVerifier({ redis, outboxFull, witness, config, metrics }: VerifierOptions): Verifier {
  const ask = batchScriptCalls(redis, outboxFull, config.VERIFY_DEADLINE_MS);
  const lookups = makeLookupCache();
  let deciding = 0;

  async function verify(call: VerifyCall): Promise<Decision> {
    if (!hasRoom()) throw new ApiError('overloaded');
    deciding += 1;
    try {
      const decision = await askScript(call);
      metrics.verifications.inc({ status: decision.status });
      if (decision.status === 'VALID' && outboxFull()) metrics.unrecorded.inc();
      return decision;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 503) throw error;
      metrics.verifications.inc({ status: 'UNDECIDED' });
      // The debit may have happened, so do not answer redis_unavailable, which promises that nothing was stored.
      throw error.errorName === 'redis_unavailable' ? new ApiError('undecided', { cause: error }) : error;
    } finally {
      deciding -= 1;
    }
  }

  function hasRoom(): boolean {
    return deciding < config.VERIFY_MAX_WAITING;
  }

  async function askScript({ caller, body, clientAddress, idempotencyKey: given }: VerifyCall): Promise<Decision> {
    const once = idempotencyKey(given);
    const shard = keyShard(body.key);
    if (shard === undefined) return refusal(body, 'MALFORMED');
    const { route = '', requestedScopes = [] } = body;
    const costMicros = costOf(body);
    // Fields of an event have the names of shared/events/event.ts.
    const usage = `"c":${costMicros},"n":${JSON.stringify(hideSecrets(body.billing?.usageName ?? 'default'))}`;
    const keyHash = hashKeyText(body.key);
    const question = packQuestion(caller, requestedScopes);
    const known = lookups.get(question, keyHash);
    const packed = packCall({
      lookup: known?.text ?? NO_LOOKUP,
      addressBits: bitsOf(body.ip ?? clientAddress),
      costMicros,
      idempotencyHash: once === undefined ? '' : hash('sha256', `${caller.tokenId} ${once}`, 'base64url'),
      usage,
      eventStart: `{"i":"${newId('evt')}","r":${JSON.stringify(hideSecrets(route))},${usage}`,
      question,
    });
    const answer = await ask({ shard, key: keyspace.keyText(shard, keyHash), packed });
    const lookup = answer.newLookup ? lookups.add(question, keyHash, answer.newLookup) : known;
    const decision = decisionFrom(answer, lookup, body);
    const { sequence, usedMicros = 0 } = decision;
    if (lookup && sequence !== undefined)
      witness(lookup.billingId, { shard, keyHash, epoch: lookup.epoch, sequence, usedMicros });
    return decision;
  }

  return { verify, hasRoom };
}

const microsOf = memoize(parseCredits);
const bitsOf = memoize((address) => addressBits(address) ?? '');

function costOf(body: VerifyBody): number {
  const micros = microsOf(body.billing?.usage ?? '0');
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000';
  throw new ApiError('invalid_request', { details: [{ path: '/billing/usage', message }] });
}
