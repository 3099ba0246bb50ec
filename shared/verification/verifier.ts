import { hash } from 'node:crypto';
import type { Caller } from '../contract/caller.ts';
import type { Config } from '../runtime/variables.ts';
import { parseCredits } from '../values/credits.ts';
import { decisionFrom, refusal, type Decision } from './decision.ts';
import { ApiError } from '../contract/errors.ts';
import { keepFindings, NO_FINDING } from './lookup-cache.ts';
import { batchScriptCalls } from './script-batches.ts';
import { idempotencyKey } from '../http/idempotency-key.ts';
import { newId } from '../values/ids.ts';
import { addressBits } from '../values/ip.ts';
import { hashKeyText, keyShard } from '../values/key-text.ts';
import { flagCharacter, keyspace, packFields } from '../stores/keyspace.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { memoize } from '../runtime/memoize.ts';
import { flagBits } from '../contract/scope-flags.ts';
import type { VerifyBody } from './operation.ts';
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
  /** Whether one more would be decided now: one that would not need not be read. */
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
 * Decides verifications by the verify script; what was not decided in time costs nothing later. `outboxFull` tells
 * whether events may be recorded; `witness` is told of each debit; after `VERIFY_DEADLINE_MS` a call is a 503, and so is
 * at once what comes on top of `VERIFY_MAX_WAITING`: an answer that would come late helps nobody and costs all others.
 */
export function makeVerifier({ redis, outboxFull, witness, config, metrics }: VerifierOptions): Verifier {
  const run = batchScriptCalls(redis, outboxFull, config.VERIFY_DEADLINE_MS);
  const findings = keepFindings();
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
      throw error.errorName === 'redis_unavailable' ? new ApiError('undecided', { cause: error }) : error;
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
    const usage = `"c":${cost},"n":${JSON.stringify(body.billing?.usageName ?? 'default')}`;
    const keyHash = hashKeyText(body.key);
    const question = questionOf(caller, requestedScopes);
    const known = findings.get(question, keyHash);
    const packed = packFields([
      known?.text ?? NO_FINDING,
      bitsOf(body.ip ?? clientAddress),
      cost,
      once === undefined ? '' : hash('sha256', `${caller.tokenId} ${once}`, 'base64url'),
      usage,
      `{"i":"${newId('evt')}","r":${JSON.stringify(route)},${usage}`,
      question,
    ]);
    const said = await run({ shard, key: keyspace.keyText(shard, keyHash), packed });
    const finding = said.lookedUp ? findings.add(question, keyHash, said.lookedUp) : known;
    const decided = decisionFrom(said, finding, body);
    const { sequence, usedMicros = 0 } = decided.found ?? {};
    if (finding && sequence !== undefined) {
      witness(finding.billingId, { shard, keyHash, epoch: finding.epoch, number: sequence, usedMicros });
    }
    return decided;
  }

  return { verify, hasRoom };
}

const microsOf = memoize(parseCredits);
const bitsOf = memoize((address) => addressBits(address) ?? '');

function costMicros(body: VerifyBody): number {
  const micros = microsOf(body.billing?.usage ?? '0');
  if (micros !== undefined) return micros;
  const message = 'must be at most 9000000000';
  throw new ApiError('invalid_request', { details: [{ path: '/billing/usage', message }] });
}

// What a finding depends on besides the key.
function questionOf(caller: Caller, scopes: NonNullable<VerifyBody['requestedScopes']>): string {
  const parts = [caller.teamId, caller.workspaceIds ? ` ${caller.workspaceIds.join(' ')} ` : ''];
  for (const scope of scopes) parts.push(scope.representation, flagCharacter(flagBits(scope)));
  return parts.join('\0');
}
