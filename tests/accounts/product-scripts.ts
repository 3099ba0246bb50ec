import { decode } from '@msgpack/msgpack';
import type { Redis } from 'ioredis';
import { beginEvent, type UsageEvent } from '../../shared/events/event.ts';
import { lineId } from '../helpers/events.ts';
import { accountInBooks, type Void } from '../../shared/books/rebuilding/lost-accounts.ts';
import {
  packAccountSettings,
  packDefaultAlerts,
  PLAIN_NUMBER,
  type PackedAlert,
} from '../../shared/stores/account-settings.ts';
import { plainClass } from '../../apps/api/sync/loaders/billings.ts';
import type { Limit } from '../../shared/contract/limits.ts';
import { END, packFields, readFields } from '../../shared/stores/fields.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { packRecord } from '../../shared/stores/records.ts';
import { withLimits, withOwnLimits } from '../../shared/stores/limits.ts';
import { readHotAccount, type HotAccount } from '../../shared/books/account-state.ts';
import { callScript, makeLibrary, scriptText, useLibrary } from '../../shared/stores/scripts.ts';
import { cancelFields, cancelledFields } from '../../shared/verification/cancel-calls.ts';
import {
  packCapture,
  readCaptureAnswers,
  type CaptureAnswer,
  type What,
} from '../../shared/verification/capture-protocol.ts';
import type { HoldFields } from '../../shared/verification/hold-id.ts';
import { statesOf, type LimitState } from '../../shared/verification/limit-states.ts';
import { makeLookupCache, type Lookup } from '../../shared/verification/lookup-cache.ts';
import { groupsOf, packedGroup } from '../../shared/verification/script-batches.ts';
import {
  NO_LOOKUP,
  packCall,
  packQuestion,
  readScriptAnswers,
  scriptArguments,
} from '../../shared/verification/script-protocol.ts';
import { newId } from '../../shared/values/ids.ts';
import { readEvents } from '../helpers/outbox.ts';
import { byClock, FIRST_EPOCH, openShard, RUN_ID, setClock, SHARD } from './test-shard.ts';

// The scripts of the product, with their fence, outbox and numbers, by a clock that the test sets.

const LATEST = 9e15;
const MOST_LOOKUPS = 5;
// What a line of a hold adds to what is held, in times of what it names.
const HELD_BY: Partial<Record<UsageEvent['kind'], number>> = { hold: 1, correction: 1, capture: -1, release: -1 };
// A shard whose Redis has lost its tail is opened again in the next one.
let epoch = FIRST_EPOCH;
const [teamId, workspaceId] = [newId('team'), newId('ws')];

/** Has a client call the scripts of the product by the clock of the test, and opens the shard for them. */
export async function loadScripts(redis: Redis): Promise<void> {
  useLibrary(
    redis,
    makeLibrary((name) => byClock(scriptText(name))),
  );
  await openShard(redis, workspaceId, epoch);
}

/** Gives the workspace default alerts, as the loader of workspaces does. */
export async function declareDefaultAlerts(redis: Redis, alerts: readonly PackedAlert[]): Promise<void> {
  const workspace = packRecord('workspace', { version: 2, defaultRatePerSecond: '', defaultAddressList: '' });
  await redis.hset(keyspace.workspace(SHARD, workspaceId), { d: workspace + packDefaultAlerts(alerts) });
  await redis.hincrby(keyspace.meta(SHARD), 'writes', 1);
}

/** What a call costs; `once`: the name by which it is repeated and cancelled. */
export type AskedCost = { micros: number; usageName?: string; once?: string };
/** A hold that is asked for, by the name that the test has for it. */
export type AskedHold = AskedCost & { name: string; forMs: number; onExpiry: 'release' | 'charge' };
type Asked = number | AskedCost | AskedHold;
export type Answered = { status: string; reason: string; amounts: string; limitedBy: string; states: LimitState[] };

const NOTHING_YET: HotAccount = {
  usedMicros: 0,
  heldMicros: 0,
  totalMicros: 0,
  expiredMicros: 0,
  limitMicros: 0,
  untilMs: NaN,
  overdrawnMicros: 0,
  classes: [],
};

/** A record with a key on which the scripts of the product do commands. Throws where lines, numbers and state differ. */
export function recordOfProduct(redis: Redis) {
  const [billingId, keyId] = [newId('bill'), newId('key')];
  const key = keyspace.keyText(SHARD, billingId);
  const record = keyspace.billing(SHARD, workspaceId, billingId);
  const [meta, outbox, due] = [keyspace.meta(SHARD), keyspace.outbox(SHARD), keyspace.due(SHARD)];
  const counters = [keyId, `${workspaceId}:${billingId}`].map((owner) => keyspace.limits(SHARD, owner));
  const lines: UsageEvent[] = [];
  const question = packQuestion({ teamId, workspaceIds: undefined }, []);
  const lookups = makeLookupCache();
  // What a verify process keeps: a lookup, and that it has the settings for captures.
  let [lookup, known]: [Lookup | undefined, string] = [undefined, ''];
  let [adjustments, sequence, held, nowMs] = [0, 0, 0, 0];
  const voids: Void[] = [];
  /** Used, held and expired of each class, as its lines sum up to it. */
  const sums = new Map<number, [number, number, number]>();
  // What the id of a hold says, by the name that the test has for it.
  const holds = new Map<string, Omit<HoldFields, 'shard' | 'meter'>>();

  /** Verifies the key, once for each cost or hold, in one script, as a verify process asks. */
  async function verify(...asked: Asked[]): Promise<Answered[]> {
    const calls = asked.map((one) => ({
      id: newId('evt'),
      usageName: 'default',
      once: '',
      ...(typeof one === 'number' ? { micros: one } : one),
    }));
    const ask = async (lookupsLeft: number) => {
      const groups = groupsOf(calls.map(packed));
      const batch = { runId: RUN_ID, notAfterMs: LATEST, outboxFull: false };
      const args = scriptArguments(batch, groups.flatMap(packedGroup));
      const keys = groups.map(() => key);
      const sizes = groups.map(({ length }) => length);
      const answers = readScriptAnswers(await callScript(redis, 'verify', keys, args), sizes);
      for (const one of answers)
        if (one.newLookup)
          lookup = lookups.add({ teamId, question, keyHash: billingId }, SHARD, one.newLookup, one.nowMs);
      if (!answers.some(({ fields }) => fields.status === 'SEARCH')) return answers;
      // A window that is over already is computed by another clock than Redis's.
      if (lookupsLeft === 0) throw new Error('the script asks for windows again and again');
      return ask(lookupsLeft - 1);
    };
    const answers = await ask(MOST_LOOKUPS);
    await takeLines();
    return answers.map((one, i) => {
      const { status, reason, usedMicros } = one.fields;
      noteHold(calls[i]!, usedMicros);
      const states = one.limits ? statesOf(one, lookup!.limits!.list, calls[i]!.usageName) : [];
      const amounts = usedMicros.split(' ').slice(0, 4).join(' ');
      return { status, reason, amounts, limitedBy: one.limits?.limitedBy ?? '', states };
    });
  }

  function packed(call: AskedCost & { id: string; usageName: string; once: string } & Partial<AskedHold>) {
    const { id, usageName, once, micros, name, forMs, onExpiry } = call;
    const held = name !== undefined && [micros, forMs, onExpiry, id.slice('evt_'.length), usageName];
    const kind = held ? '"x":"hold",' : '';
    const text = packCall({
      lookup: lookup?.text ?? NO_LOOKUP,
      searchedList: '',
      listed: '',
      idempotencyHash: once,
      usageHash: once && 'usage',
      costMicros: held ? `@${held.join('\x1f')}` : micros,
      question,
    });
    const event = `{${kind}"i":"${id}","r":"","c":${held ? 0 : micros},"n":"${usageName}"`;
    return { key, packed: text + (lookup?.limits?.packedFor(usageName) ?? ''), event };
  }

  function noteHold({ name, micros, onExpiry, usageName = '' }: AskedCost & Partial<AskedHold>, usedMicros: string) {
    const [, , , , id = '', openedMs = '', endsAtMs = '', epoch = ''] = usedMicros.split(' ');
    if (name === undefined || id === '') return;
    const told = { id, endsAtMs, onExpiry: onExpiry!, openedMs, epoch, keyId, usageName, workspaceId, billingId };
    holds.set(name, { ...told, micros: String(micros) });
  }

  async function settleHold(what: What, name: string, amount: number): Promise<string> {
    const [{ status }] = await settleHolds([what, name, amount]);
    return status === 'AGAIN' ? settleHold(what, name, amount) : status === 'OK' ? 'DONE' : status;
  }

  /** Does so with several, in one script. */
  async function settleHolds(...calls: [what: What, name: string, amount: number][]) {
    const packed = calls.map((call) => packSettling(...call, { known }));
    const args = scriptArguments({ runId: RUN_ID, notAfterMs: LATEST, outboxFull: false }, packed);
    const keys = calls.map(() => record);
    const answer = await callScript(redis, 'capture', keys, args);
    await takeLines();
    const answers = readCaptureAnswers(answer, calls.length) as [CaptureAnswer, ...CaptureAnswer[]];
    known = answers.find((one) => one.known !== '')?.known ?? known;
    return answers;
  }

  /** What the capture script is asked, by a caller that keeps these settings. */
  function packSettling(
    what: What,
    name: string,
    amount: number,
    more: { known?: string; trace?: string } = {},
  ): string {
    return packCapture({ what, amount, known: '', trace: '', ...more }, holds.get(name)!);
  }

  async function cancel(once: string): Promise<string> {
    const packed = packFields(cancelFields, { idempotencyHash: once, callerTeamId: teamId, callerWorkspaceIds: '' });
    const args = scriptArguments({ runId: RUN_ID, notAfterMs: LATEST, outboxFull: false }, [packed]);
    const [, , answer = ''] = await callScript(redis, 'cancel', [key], args);
    await takeLines();
    const { status, detail } = readFields(cancelledFields, answer, '\x1f');
    return status === 'AGAIN' ? cancel(once) : `${status} ${detail}`;
  }

  async function adjust(micros: number | bigint, ...voided: (number | bigint)[]): Promise<string> {
    const [id, number] = [newId('evt'), adjustments + 1];
    const booked = { workspaceId, costMicros: Number(micros), day: '2027-01-01', number, actor: '', reason: '' };
    const event = beginEvent({ kind: 'adjustment', id, billingId, ...booked });
    const args = [RUN_ID, LATEST, number, String(micros), event, ...voided.map(String)];
    const [status] = await callScript(redis, 'adjust', [meta, record, outbox], args);
    await takeLines();
    if (status === 'AGAIN') return adjust(micros, ...voided);
    adjustments += 1;
    return status === 'OK' ? 'DONE' : String(status);
  }

  async function bringUpToDate(): Promise<string> {
    const [status, , why] = await callScript(redis, 'bring-up-to-date', [meta, record, outbox, due], [RUN_ID, LATEST]);
    if (status === 'UNSETTLED') throw new Error(why);
    await takeLines();
    return status === 'AGAIN' ? bringUpToDate() : String(status);
  }

  /** Redis loses its balance, which is rebuilt from its lines. */
  async function rebuild(): Promise<string> {
    await bringUpToDate();
    await redis.hdel(record, 't');
    await redis.hset(record, 'u', 'aside x 0');
    const classes = new Map(
      [...sums].map(([number, [usedMicros, heldMicros, expiredMicros]]) => [
        number,
        { usedMicros, heldMicros, expiredMicros },
      ]),
    );
    const usedMicros = [...classes.values()].reduce((sum, one) => sum + one.usedMicros, 0);
    const owned = new Map<number, number>();
    for (const text of await redis.hvals(keyspace.openHolds(SHARD, workspaceId, billingId)))
      for (const [, number, micros] of text.split(END)[3]!.matchAll(/(\d+):(\d+) /g))
        owned.set(Number(number), (owned.get(Number(number)) ?? 0) + Number(micros));
    const lastMs = Math.max(0, ...lines.map(({ timeMs }) => timeMs));
    const told = accountInBooks({ classes, lastMs }, voids, { heldMicros: held, owned, costMicros: 0 });
    const args = [RUN_ID, LATEST, epoch, 'x', usedMicros, held, 0, adjustments, told, ''];
    const answer = await callScript(redis, 'rebuild', [meta, outbox, due, record], args);
    if (answer[2] !== 'OK') throw new Error(`rebuilding answered ${answer.join(' ')}`);
    await takeLines();
    await bringUpToDate();
    return 'DONE';
  }

  /** Asks for one call, now and then in a batch, after another call of the record. */
  async function ask(asked: AskedCost | AskedHold): Promise<string> {
    const { status, reason } = (await verify(...(asked.micros % 2 === 1 ? [0] : []), asked)).at(-1)!;
    if (status === 'AGAIN') return ask(asked);
    return status === 'VALID' ? 'VALID' : reason === 'CREDITS_USED_UP' ? 'REFUSED' : `${status} ${reason}`;
  }

  async function cancelCall(once: string): Promise<string> {
    const before = lines.length;
    const [status = '', detail = ''] = (await cancel(once)).split(' ');
    // One that gives back no credits looks at no account.
    if (lines.length === before) await bringUpToDate();
    // Real holds are not cancelled a day later.
    return status === 'OK' ? 'DONE' : status === 'UNSETTLED' ? detail : status;
  }

  /** Voids a grant, which becomes the class `number`, or all of the class `from` where that is 0. */
  async function voidGrant(number: number, from: number, ...amounts: (number | bigint)[]): Promise<string> {
    voids.push({ billingId, number: number || from, class: from, voidedAtMs: nowMs });
    return adjust(0, number, from, ...amounts);
  }

  /** Reads new lines of the outbox: their numbers have no gap, each tells the balance, and a moment names the one before it. */
  async function takeLines(): Promise<void> {
    for (const [entry, fields] of await redis.xrange(outbox, '-', '+')) {
      for (const line of readEvents(fields)) {
        const { kind, id, holdMicros, heldMicros } = line;
        const next = kind === 'adjustment' ? sequence : sequence + 1;
        if (line.sequence !== next || line.epoch !== epoch)
          throw new Error(`line ${line.epoch}.${line.sequence} after ${sequence}`);
        sequence = line.sequence;
        held += holdMicros * (HELD_BY[kind] ?? 0);
        if (heldMicros !== held) throw new Error(`a ${kind} tells ${heldMicros} held, the lines ${held}`);
        if (kind === 'moment' && id !== lineId(billingId, epoch, sequence))
          throw new Error(`a moment has the id ${id}`);
        addToSums(line);
        lines.push(line);
      }
      await redis.xdel(outbox, entry);
    }
  }

  function addToSums({ kind, costMicros, classes }: UsageEvent): void {
    const changes = classes.length > 0 ? classes : [[PLAIN_NUMBER, costMicros]];
    if (changes.reduce((sum, [, used = 0]) => sum + used, 0) !== costMicros)
      throw new Error(`a ${kind} of cost ${costMicros} uses ${JSON.stringify(classes)}`);
    for (const [number = 0, ...change] of changes) {
      const before = sums.get(number) ?? [0, 0, 0];
      sums.set(number, before.map((sum, i) => sum + (change[i] ?? 0)) as [number, number, number]);
    }
  }

  async function setKey(limits: readonly Limit[]) {
    const named = { state: 'A', teamId, workspaceId, keyId, meter: billingId, answerPart: `"apiKeyId":"${keyId}"` };
    const rest = { expiresAtMs: 0, validUntilMs: 0, addressList: '', workspaceFields: '["d"]', scopeFlags: '' };
    await redis.set(key, packRecord('key', { version: 1, ...named, ...rest, ratePerSecond: withLimits('', limits) }));
  }

  async function declare(settings: string): Promise<void> {
    await redis.hset(record, 's', settings);
    await redis.hincrby(meta, 'writes', 1);
  }

  return {
    billingId,
    /** Where Redis has it, and what its key's limits and its own have counted. */
    name: record,
    counters,
    lines,
    sums,
    verify,
    ask,
    settleHold,
    settleHolds,
    packSettling,
    /** What the id of a hold says, by the name that the test has for it; undefined where nothing is held. */
    holdOf: (name: string) => holds.get(name),
    cancel,
    cancelCall,
    adjust,
    voidGrant,
    bringUpToDate,
    rebuild,
    /** All that Redis has of it. */
    fields: () => redis.hgetall(record),
    async startPlain(usedMicros: bigint) {
      await redis.hset(record, { u: String(usedMicros) });
      sums.set(PLAIN_NUMBER, [Number(usedMicros), 0, 0]);
      await setKey([]);
    },
    declare,
    /** Sets limits of the key and of a record that never runs out, and alerts of it; with these it has an account. */
    async setLimits(ofKey: readonly Limit[], ofRecord: readonly Limit[], alerts?: readonly PackedAlert[]) {
      const answerPart = `"id":"${billingId}","totalCredits":"9000000000","allowOverages":false`;
      const settings = { version: 1, billingId, answerPart, limits: ofRecord };
      const plain = () => packRecord('billing', { ...settings, limitMicros: withOwnLimits(9e15, ofRecord) });
      await setKey(ofKey);
      await declare(alerts ? packAccountSettings(settings, [plainClass(9e15)], alerts) : plain());
    },
    /** Asks at a time; gives the answer, what Redis has then, and which alerts the lines tell of. */
    async at(time: number, asked: () => Promise<string>) {
      nowMs = time;
      await setClock(redis, nowMs);
      const from = lines.length;
      const answer = await asked();
      const [used, state, numbered] = await redis.hmgetBuffer(record, 'u', 't', `n${epoch}`);
      if (Number(numbered ?? 0) !== sequence)
        throw new Error(`the record has number ${String(numbered)}, its lines ${sequence}`);
      const hot = readHotAccount(used ?? undefined) ?? NOTHING_YET;
      const last = lines.at(-1);
      if (last && last.usedMicros !== hot.usedMicros)
        throw new Error(`the last line tells ${last.usedMicros}, not ${hot.usedMicros}`);
      const { usedMicros, heldMicros, totalMicros, expiredMicros, limitMicros } = hot;
      return {
        answer,
        /** Used, held, total and expired, and the most that used and held may reach. */
        amounts: [usedMicros, heldMicros, totalMicros, expiredMicros, limitMicros].map(BigInt),
        untilMs: hot.untilMs,
        overdrawn: BigInt(hot.overdrawnMicros),
        /** Of each open class. */
        left: new Map(hot.classes.map(({ number, leftMicros }) => [number, BigInt(leftMicros)])),
        crossed: lines.slice(from).flatMap(crossedBy),
        /** Text and arming of each. */
        alerts: state ? (decode(state) as [number, number, [], [], [], [string, string, number, string][]])[5] : [],
      };
    },
    async remove() {
      await redis.del(key, record, ...counters);
      await redis.zrem(due, record);
    },
  };
}

/** Of each alert that a line crossed its name, and by which arming. */
export function crossedBy({ crossed }: UsageEvent): { name: string; armed: string }[] {
  const fields = crossed.split(END).slice(0, -1);
  return Array.from({ length: fields.length / 5 }, (_, i) => ({ name: fields[5 * i]!, armed: fields[5 * i + 4]! }));
}
