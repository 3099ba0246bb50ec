import type { Redis } from 'ioredis';
import { plainClass } from '../../apps/api/sync/loaders/classes.ts';
import type { Limit } from '../../shared/contract/limits.ts';
import { packAccountSettings, type PackedAlert } from '../../shared/stores/account-settings.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { packFields } from '../../shared/stores/fields.ts';
import { withLimits, withOwnLimits } from '../../shared/stores/limits.ts';
import { packRecord } from '../../shared/stores/records.ts';
import { scriptText } from '../../shared/stores/scripts.ts';
import { newId } from '../../shared/values/ids.ts';
import { statesOf, type LimitState } from '../../shared/verification/limit-states.ts';
import { makeLookupCache, type Lookup } from '../../shared/verification/lookup-cache.ts';
import { cancelFields } from '../../shared/verification/cancel-calls.ts';
import { packCapture, readCaptureAnswers } from '../../shared/verification/capture-protocol.ts';
import type { HoldFields } from '../../shared/verification/hold-id.ts';
import {
  NO_LOOKUP,
  packCall,
  packQuestion,
  readScriptAnswers,
  scriptArguments,
} from '../../shared/verification/script-protocol.ts';
import { readLine, type Line } from './lines.ts';
import { byClock, openShard, RUN_ID, SHARD } from './test-shard.ts';

// The verify script on a key and a record with limits, by a clock that the test sets to the µs, asked as a verify process asks.

const MOST_LOOKUPS = 5;
const [teamId, workspaceId] = [newId('team'), newId('ws')];

export type Asked = {
  costMicros: number;
  usageName?: string;
  once?: string;
  hold?: { forMs: number; onExpiry: 'release' | 'charge' };
};
/** What the id of a hold says; undefined where nothing is held. */
export type Held = Omit<HoldFields, 'shard' | 'meter'> | undefined;
type More = { rate?: number | ''; alerts?: readonly PackedAlert[] };
export type Answered = { status: string; reason: string; limitedBy: string; states: LimitState[]; held: Held };

/** Makes the script that cancels known to Redis. */
export async function loadCancel(redis: Redis): Promise<string> {
  return (await redis.script('LOAD', byClock(scriptText('cancel')))) as string;
}

/** Makes the script known to Redis, and opens the shard for it. */
export async function loadVerify(redis: Redis): Promise<string> {
  await openShard(redis, workspaceId);
  return (await redis.script('LOAD', byClock(scriptText('verify')))) as string;
}

/** A key with a billing record that never runs out. */
export function limitedKey(redis: Redis, sha: string) {
  const [keyId, billingId] = [newId('key'), newId('bill')];
  const [key, record] = [keyspace.keyText(SHARD, keyId), keyspace.billing(SHARD, workspaceId, billingId)];
  const counters = [keyId, `${workspaceId}:${billingId}`].map((owner) => keyspace.limits(SHARD, owner));
  const question = packQuestion({ teamId, workspaceIds: undefined }, []);
  const lookups = makeLookupCache();
  let lookup: Lookup | undefined;
  const crossed: { name: string; armed: string; line: Line }[] = [];

  /** Sets the limits of key and record, and alerts of the record; with these it has an account. */
  async function set(ofKey: readonly Limit[], ofRecord: readonly Limit[], more: More = {}): Promise<void> {
    const { rate = '', alerts } = more;
    const answerPart = `"id":"${billingId}","totalCredits":"9000000000","allowOverages":false`;
    const limitMicros = withOwnLimits(9e15, ofRecord);
    const settings = { version: 1, billingId, answerPart, limits: ofRecord };
    const packed = alerts
      ? packAccountSettings(settings, [plainClass(9e15)], alerts)
      : packRecord('billing', { ...settings, limitMicros });
    await redis.hset(record, { s: packed });
    const ratePerSecond = withLimits(rate, ofKey);
    const named = { state: 'A', teamId, workspaceId, keyId, meter: billingId, answerPart: `"apiKeyId":"${keyId}"` };
    const rest = { expiresAtMs: 0, validUntilMs: 0, addressList: '', workspaceFields: '["d"]', scopeFlags: '' };
    await redis.set(key, packRecord('key', { version: 1, ...named, ...rest, ratePerSecond }));
    await redis.hincrby(keyspace.meta(SHARD), 'writes', 1);
  }

  /** The script's ARGV for calls of this key, with what is known of it. */
  function argsOf(calls: readonly Asked[]): (string | number)[] {
    const packed = calls.map(({ costMicros, usageName = 'default', once = '', hold }) => {
      const id = newId('evt');
      const kind = hold ? '"x":"hold",' : '';
      const eventStart = `{${kind}"i":"${id}","r":"","c":${hold ? 0 : costMicros},"n":"${usageName}"`;
      const none = { searchedList: '', listed: '', usageHash: once && 'usage' };
      const held = hold && [costMicros, hold.forMs, hold.onExpiry, id.slice('evt_'.length), usageName];
      const call = {
        lookup: lookup?.text ?? NO_LOOKUP,
        ...none,
        costMicros: held ? `@${held.join('\x1f')}` : costMicros,
        idempotencyHash: once,
        eventStart,
        question,
      };
      return packCall(call) + (lookup?.limits?.packedFor(usageName) ?? '');
    });
    return scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, packed);
  }

  async function verify(...calls: Asked[]): Promise<Answered[]> {
    return ask(calls, MOST_LOOKUPS);
  }

  async function ask(calls: Asked[], lookupsLeft: number): Promise<Answered[]> {
    const answer = (await redis.evalsha(sha, calls.length, ...calls.map(() => key), ...argsOf(calls))) as string[];
    const answers = readScriptAnswers(answer, calls.length);
    for (const one of answers)
      if (one.newLookup) lookup = lookups.add({ teamId, question, keyHash: keyId }, SHARD, one.newLookup, one.nowMs);
    if (answers.some(({ fields }) => fields.status === 'SEARCH')) {
      // A window that is over already is computed by another clock than Redis's.
      if (lookupsLeft === 0) throw new Error('the script asks for windows again and again');
      return ask(calls, lookupsLeft - 1);
    }
    await takeCrossed();
    return answers.map((one, i) => ({
      status: one.fields.status,
      reason: one.fields.reason,
      limitedBy: one.limits?.limitedBy ?? '',
      states: one.limits ? statesOf(one, lookup!.limits!.list, calls[i]!.usageName ?? 'default') : [],
      held: heldBy(calls[i]!, one.fields.usedMicros),
    }));
  }

  function heldBy({ costMicros, usageName = 'default', hold }: Asked, usedMicros: string): Held {
    const [, , , , id = '', openedMs = '', endsAtMs = '', epoch = '', turn = ''] = usedMicros.split(' ');
    if (!hold || id === '') return undefined;
    const owners = { keyId, workspaceId, billingId };
    return {
      ...owners,
      id,
      micros: String(costMicros),
      endsAtMs,
      onExpiry: hold.onExpiry,
      turn,
      openedMs,
      epoch,
      usageName,
    };
  }

  /** Captures or releases a hold of this key. */
  async function settle(captureSha: string, what: 'capture' | 'release', amount: number, held: Held): Promise<string> {
    const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, [
      packCapture({ what, amount, known: '', trace: '' }, held!),
    ]);
    const answer = (await redis.evalsha(captureSha, 1, record, ...args)) as string[];
    await takeCrossed();
    return readCaptureAnswers(answer, 1)[0]!.status;
  }

  /** Cancels a call by its name; gives the script's answer. */
  async function cancel(cancelSha: string, once: string): Promise<string> {
    const packed = packFields(cancelFields, { idempotencyHash: once, callerTeamId: teamId, callerWorkspaceIds: '' });
    const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, [packed]);
    const [, , answer = ''] = (await redis.evalsha(cancelSha, 1, key, ...args)) as string[];
    await takeCrossed();
    return answer.replace('\x1f', ' ');
  }

  async function takeCrossed(): Promise<void> {
    const entries = (await redis.xrange(keyspace.outbox(SHARD), '-', '+')) as [string, [string, string]][];
    for (const [, [, text]] of entries)
      for (const line of text.split('\n').map(readLine)) crossed.push(...line.crossed.map((one) => ({ ...one, line })));
    await redis.del(keyspace.outbox(SHARD));
  }

  return {
    set,
    verify,
    settle,
    cancel,
    /** The alerts that were crossed, and by which line. */
    crossed,
    counters,
    async remove() {
      await redis.del(key, record, ...counters);
    },
  };
}
