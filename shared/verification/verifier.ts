import type { Caller } from '../contract/caller.ts';
import { ApiError } from '../contract/errors.ts';
import { idempotencyKey } from '../http/headers.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { spans, type Attributes } from '../runtime/telemetry.ts';
import { keyspace } from '../stores/keyspace.ts';
import { placeOfKey } from '../values/key-text.ts';
import { makeAddressLists } from './address-lists.ts';
import { costOfCall, costOfLookup } from './call-cost.ts';
import { fieldsOf } from './call-fields.ts';
import { decisionFrom, refusal, type Decision } from './decision.ts';
import { heldPart } from './held.ts';
import type { HoldKeys } from './hold-keys.ts';
import { makeLookupCache, type Lookup } from './lookup-cache.ts';
import { ownerOf, type Outcomes } from './outcomes.ts';
import type { VerifyBody } from './operation.ts';
import { waitedSince, type Patience } from './patience.ts';
import { makeSlots } from './slots.ts';
import { makeProcessTurns, type ProcessTurns } from './process-turns.ts';
import { batchScriptCalls, type BatchOptions, type BatchScript } from './script-batches.ts';
import { NO_LOOKUP, packCall, packQuestion, readScriptAnswers, type ScriptAnswer } from './script-protocol.ts';

export type VerifyCall = {
  caller: Caller;
  body: VerifyBody;
  clientAddress: string;
  idempotencyKey: string | undefined;
  /** When its answer began to be waited for, by `redis.clock.monotonic()`; default now. */
  since?: number;
  patience?: Patience | undefined;
  /** Whether its client has left; such a call costs nothing where its script was not sent yet. */
  isGone?: (() => boolean) | undefined;
};
export type Verify = (call: VerifyCall) => Promise<Decision>;
export type Verifier = {
  verify: Verify;
  /** Whether one more call of a team would be decided now, or of any team; if not, its body need not even be read. */
  hasRoom(teamId?: string): boolean;
  turn: ProcessTurns['wait'];
  strangersTurn: ProcessTurns['waitAsStranger'];
};

type VerifierOptions = BatchOptions & { holdKeys: HoldKeys; noteOutcome: Outcomes['note']; metrics: Metrics };

const verifyScript: BatchScript<ScriptAnswer> = {
  name: 'verify',
  span: spans.script,
  readAnswers: readScriptAnswers,
  unexpectedCost: ({ newLookup }) => (newLookup ? costOfLookup(newLookup) : 0),
};

/**
 * Decides verifications by the verify script. A call that was not decided in time costs nothing later. `outboxFull` says
 * whether events can be recorded; `noteOutcome` learns of each refusal. A call becomes a 503 after `VERIFY_DEADLINE_MS`, and at once
 * while `VERIFY_MAX_WAITING` others are being decided: a late answer helps nobody and delays all others. A team that has
 * less than its share of those is decided all the same.
 */
export function makeVerifier(options: VerifierOptions): Verifier {
  const { redis, holdKeys, outboxFull, noteOutcome, config, metrics, telemetry } = options;
  const ask = batchScriptCalls(verifyScript, options);
  const lookups = makeLookupCache();
  const addressLists = makeAddressLists(redis, config.VERIFY_DEADLINE_MS);
  const slots = makeSlots(config.VERIFY_MAX_WAITING);
  const turns = makeProcessTurns(slots);

  async function verify(call: VerifyCall): Promise<Decision> {
    const { teamId } = call.caller;
    if (!slots.hasRoom(teamId)) throw new ApiError('overloaded');
    slots.enter(teamId);
    try {
      const decision = await askScript(call);
      metrics.verifications.inc({ status: decision.status });
      if (decision.status !== 'VALID' || decision.wouldRefuse) noteOutcome(teamId, call.body, decision);
      if (decision.status === 'VALID' && outboxFull()) metrics.unrecorded.inc();
      return decision;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 503) throw error;
      metrics.verifications.inc({ status: 'UNDECIDED' });
      // The debit may have happened, so do not answer redis_unavailable, which promises that nothing was stored.
      throw error.errorName === 'redis_unavailable' ? new ApiError('undecided', { cause: error }) : error;
    } finally {
      slots.leave(teamId);
    }
  }

  async function askScript(call: VerifyCall): Promise<Decision> {
    const { caller, body, clientAddress, isGone } = call;
    const since = waitedSince(call.patience, call.since ?? redis.clock.monotonic(), config.VERIFY_DEADLINE_MS);
    const once = idempotencyKey(call.idempotencyKey);
    const question = packQuestion(caller, body.requestedScopes ?? []);
    const { fields, event } = fieldsOf({ caller, body, once, question, trace: telemetry.trace() });
    const place = placeOfKey(body.key, caller.teamId);
    if (!place) return refusal(body, 'MALFORMED');
    const { home, hash: keyHash, isForeign } = place;
    if (body.billing?.hold) options.requireMemory();
    // Before anything is held: without its id nobody could settle it.
    const keys = body.billing?.hold && (await holdKeys.get(home));
    const asked = { teamId: caller.teamId, question, keyHash };
    let lookup = lookups.get(asked);
    let shard = lookup?.shard ?? home;
    let askedBefore: number | undefined;
    // Almost always one round. A key with a list that is not known here yet takes another, after its list was read; so does
    // an imported key that its home points away from, until its lookup is kept here. The deadline ends what goes on and on.
    for (let searches = 1; ;) {
      const searched = lookup?.addressList;
      const listed = searched ? await addressLists.search(searched, body.ip ?? clientAddress, since) : undefined;
      let packed = packCall({
        lookup: lookup?.text ?? NO_LOOKUP,
        searchedList: listed === undefined ? '' : searched!,
        listed: listed ? '1' : '',
        ...fields,
      });
      if (lookup?.limits) packed += lookup.limits.packedFor(body.billing?.usageName ?? 'default');
      const cost = costOfCall(packed.length + event.length, lookup !== undefined);
      const key = keyspace.keyText(shard, keyHash);
      const answer = await ask({ shard, key, packed, event, team: caller.teamId, cost, since, isGone });
      if (answer.newLookup) lookup = lookups.add(asked, shard, answer.newLookup, answer.nowMs);
      const step = nextStep(answer, lookup, { home, shard, askedBefore });
      if (step === 'ask') continue;
      if (step === 'unknown') return refusal(body, isForeign ? 'MALFORMED' : 'NOT_FOUND');
      if (step === 'search') {
        const missing = listed === undefined && lookup!.addressList === searched;
        if (await addressLists.askAgain(searches++, lookup!.addressList, missing)) continue;
      } else if (step !== 'answer') {
        lookups.remove(asked);
        [askedBefore, shard, lookup] = [shard, step.shard, undefined];
        continue;
      }
      const hold = keys && heldPart(answer, lookup, { caller, body, keys });
      return decisionFrom(answer, lookup, body, hold);
    }
  }

  const traced = telemetry.part(spans.verify, verify, attributesOf);
  return { verify: traced, hasRoom: slots.hasRoom, turn: turns.wait, strangersTurn: turns.waitAsStranger };
}

/** What a span says of a decision: ids, and nothing that a client sent. */
function attributesOf({ status, reason, lookup }: Decision): Attributes {
  const owner = lookup && ownerOf(lookup);
  return {
    'keytally.status': status,
    ...(reason && { 'keytally.reason': reason }),
    ...(owner && { 'keytally.key.id': owner.keyId, 'keytally.workspace.id': owner.workspaceId }),
  };
}

/** What follows an answer of the script: the same is asked once more, of this or another shard or after a search, or it is told. */
type Step = 'ask' | 'search' | { shard: number } | 'unknown' | 'answer';

function nextStep(
  { fields: { status, reason } }: ScriptAnswer,
  lookup: Lookup | undefined,
  { home, shard, askedBefore }: { home: number; shard: number; askedBefore: number | undefined },
): Step {
  // The script went on where it was asked before, or found limits, which were read just now.
  if (status === 'AGAIN') return 'ask';
  if (status === 'SEARCH') return lookup?.addressList === '' ? 'ask' : 'search';
  if (status !== 'ELSEWHERE' && reason !== 'NOT_FOUND') return 'answer';
  if (status !== 'ELSEWHERE' && shard === home) return 'unknown';
  // Where a kept lookup finds it no more, its home may point to another shard by now; never back.
  const next = status === 'ELSEWHERE' ? Number(reason) : home;
  const isNew = askedBefore === undefined || (shard === home && next !== askedBefore);
  return isNew ? { shard: next } : 'unknown';
}
