import type { Caller } from '../contract/caller.ts';
import { ApiError } from '../contract/errors.ts';
import { idempotencyKey } from '../http/idempotency-key.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { Config } from '../runtime/variables.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { hashKeyText, hashShard, isForeignText, keyShard } from '../values/key-text.ts';
import { makeAddressLists } from './address-lists.ts';
import { costOfCall } from './call-cost.ts';
import { fieldsOf } from './call-fields.ts';
import { decisionFrom, refusal, type Decision } from './decision.ts';
import { makeLookupCache } from './lookup-cache.ts';
import type { VerifyBody } from './operation.ts';
import { makePlaces } from './places.ts';
import { makeProcessTurns, type ProcessTurns } from './process-turns.ts';
import { batchScriptCalls } from './script-batches.ts';
import { NO_LOOKUP, packCall, packQuestion } from './script-protocol.ts';
import type { Witnesses } from './witnesses.ts';

export type VerifyCall = {
  caller: Caller;
  body: VerifyBody;
  clientAddress: string;
  idempotencyKey: string | undefined;
  /** When its answer began to be waited for, by `performance.now()`; default now. */
  since?: number;
};
export type Verify = (call: VerifyCall) => Promise<Decision>;
export type Verifier = {
  verify: Verify;
  /** Whether one more call of a team would be decided now, or of any team; if not, its body need not even be read. */
  hasRoom(teamId?: string): boolean;
  turn: ProcessTurns['wait'];
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
 * while `VERIFY_MAX_WAITING` others are being decided: a late answer helps nobody and delays all others. A team that has
 * less than its share of those is decided all the same.
 */
export function makeVerifier({ redis, outboxFull, witness, config, metrics }: VerifierOptions): Verifier {
  const ask = batchScriptCalls(redis, outboxFull, config.VERIFY_DEADLINE_MS);
  const lookups = makeLookupCache();
  const addressLists = makeAddressLists(redis, config.VERIFY_DEADLINE_MS);
  const places = makePlaces(config.VERIFY_MAX_WAITING);
  const turns = makeProcessTurns(places);

  async function verify(call: VerifyCall): Promise<Decision> {
    const { teamId } = call.caller;
    if (!places.hasRoom(teamId)) throw new ApiError('overloaded');
    places.enter(teamId);
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
      places.leave(teamId);
    }
  }

  async function askScript(call: VerifyCall): Promise<Decision> {
    const { caller, body, clientAddress, since = performance.now() } = call;
    const once = idempotencyKey(call.idempotencyKey);
    const ownShard = keyShard(body.key);
    if (ownShard === undefined && !isForeignText(body.key)) return refusal(body, 'MALFORMED');
    const keyHash = hashKeyText(body.key);
    const question = packQuestion(caller, body.requestedScopes ?? []);
    const fields = fieldsOf(caller, body, once, question);
    const home = ownShard ?? hashShard(keyHash);
    let lookup = lookups.get(question, keyHash);
    let shard = lookup?.shard ?? home;
    let askedBefore: number | undefined;
    // Almost always one round. A key with a list that is not known here yet takes another, after its list was read; so does
    // an imported key that its home points away from, until its lookup is kept here.
    for (let round = 1; ; round++) {
      const searched = lookup?.addressList;
      const listed = searched ? await addressLists.search(searched, body.ip ?? clientAddress, since) : undefined;
      const packed = packCall({
        lookup: lookup?.text ?? NO_LOOKUP,
        searchedList: listed === undefined ? '' : searched!,
        listed: listed ? '1' : '',
        ...fields,
      });
      const cost = costOfCall(packed, lookup !== undefined);
      const key = keyspace.keyText(shard, keyHash);
      const answer = await ask({ shard, key, packed, team: caller.teamId, cost, since });
      if (answer.newLookup) lookup = lookups.add(question, keyHash, shard, answer.newLookup);
      const { status, reason } = answer.fields;
      if (status === 'ELSEWHERE' || (reason === 'NOT_FOUND' && shard !== home)) {
        // Where a kept lookup finds it no more, its home may point to another shard by now; never back.
        const next = status === 'ELSEWHERE' ? Number(reason) : home;
        if (askedBefore === undefined || (shard === home && next !== askedBefore)) {
          lookups.remove(question, keyHash);
          [askedBefore, shard, lookup] = [shard, next, undefined];
          round -= 1;
          continue;
        }
      }
      if (status === 'ELSEWHERE' || reason === 'NOT_FOUND') {
        return refusal(body, ownShard === undefined ? 'MALFORMED' : 'NOT_FOUND');
      }
      if (status === 'SEARCH') {
        const missing = listed === undefined && lookup!.addressList === searched;
        if (await addressLists.askAgain(round, lookup!.addressList, missing)) continue;
      }
      const decision = decisionFrom(answer, lookup, body);
      const { sequence, usedMicros = 0 } = decision;
      if (lookup && sequence !== undefined)
        witness(lookup.billingId, { shard, keyHash, epoch: lookup.epoch, sequence, usedMicros });
      return decision;
    }
  }

  return { verify, hasRoom: places.hasRoom, turn: turns.wait };
}
