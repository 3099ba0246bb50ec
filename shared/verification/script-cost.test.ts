import type { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeOwnRedis, type OwnRedis } from '../../tests/helpers/own-redis.ts';
import { addressListName } from '../stores/address-lists.ts';
import { keyspace } from '../stores/keyspace.ts';
import { flagCharacter, packRecord } from '../stores/records.ts';
import { scriptText } from '../stores/scripts.ts';
import { packAddressList } from '../values/address-list.ts';
import { newId } from '../values/ids.ts';
import { scopeMark } from '../stores/scope-mark.ts';
import { NO_LOOKUP, packCall, packQuestion, readScriptAnswers, scriptArguments } from './script-protocol.ts';

// What one verification costs Redis at most, with the longest input that the schemas let pass. Redis itself says how long a
// script took. A script that does a fixed piece of work, in turns with it, says how slow this machine is at the moment.

const LIMIT_US = 150;
// What `yardstick` takes where the verification of 100 scopes in a new order took 746 μs, before it had a limit.
const YARDSTICK_US = 146;
const ROUNDS = 40;
// For a machine on which so much else runs that the first ones tell nothing.
const MOST_ROUNDS = 1_000;
const CALLS = 20;
const SHARD = 7;

const yardstick = `
  local known = {}
  for i = 1, 250 do known[string.rep('x', 40) .. i] = i end
  for i = 1, 60 do redis.call('GET', KEYS[1] .. i) end
  return 1`;

let own: OwnRedis;
let redis: Redis;
const test = suite('cost of a verification');
test.before(async () => {
  own = await makeOwnRedis('script-cost');
  redis = own.admin;
});
test.after(() => own?.remove());

// A character that takes three bytes.
const WIDE = '\u{20ac}';
const [teamId, workspaceId, keyId] = [newId('team'), newId('ws'), newId('key')];
const representation = (i: number) => `r${i}:`.padEnd(128, '.x');
const list = packAddressList(Array.from({ length: 1_000 }, (_, i) => `2001:db8::${(2 * i).toString(16)}`));
const listName = addressListName(SHARD, workspaceId, list);

type Worst = { scopes?: number; wanted?: number; longTexts?: boolean; addresses?: boolean; workspaces?: number };

/** Writes a key that costs much to verify; gives what makes the commands that verify it, with a lookup or `NO_LOOKUP`. */
async function worstKey({ scopes = 0, wanted = 0, longTexts, addresses, workspaces }: Worst) {
  await redis.flushall();
  const runId = /^run_id:(\w+)/m.exec(await redis.info('server'))![1]!;
  await redis.hset(keyspace.meta(SHARD), { owner: runId, epoch: 9, writes: 77 });
  const text = (length: number) => WIDE.repeat(longTexts ? length : 10);
  const meter = text(256);
  const key = keyspace.keyText(SHARD, 'hash');
  await redis.set(key, await recordsOf({ scopes, meter, metadata: longTexts ? 4_080 : 20, addresses }));

  const others = Array.from({ length: workspaces ?? 0 }, (_, i) => (i === 0 ? workspaceId : newId('ws')));
  const asked = { teamId, workspaceIds: workspaces ? others.toReversed() : undefined };
  const flags = { read: true, del: true };
  const last = Array.from({ length: wanted }, (_, i) => ({ representation: representation(scopes - 1 - i), ...flags }));
  const question = packQuestion(asked, last);
  const usage = `"c":1,"n":"${text(128)}"`;
  let calls = 0;
  return (lookup: string) => {
    const searched = addresses ? { searchedList: listName, listed: '1' } : { searchedList: '', listed: '' };
    const idempotencyHash = longTexts ? `once-${(calls += 1)}`.padEnd(43, '.') : '';
    const eventStart = `{"i":"${newId('evt')}","r":"${text(1_024)}",${usage}`;
    const usageHash = idempotencyHash.slice(0, 22);
    const packed = packCall({ lookup, ...searched, costMicros: 1, idempotencyHash, usageHash, eventStart, question });
    return [key, ...scriptArguments({ runId, notAfterMs: 9e15, outboxFull: false }, [packed])];
  };
}

/** Writes what the record of a key refers to; gives that record. */
async function recordsOf(like: { scopes: number; meter: string; metadata: number; addresses: boolean | undefined }) {
  const { scopes, meter, metadata, addresses } = like;
  const workspace: Record<string, string> = {
    d: packRecord('workspace', { version: 1, defaultRatePerSecond: '', defaultAddressList: addresses ? listName : '' }),
  };
  for (let i = 0; i < scopes; i++) {
    const scope = { version: 1, representation: representation(i), scopeId: newId('scope') };
    workspace[`s${900 + i}`] = packRecord('scope', { ...scope, mark: `#${scopeMark(representation(i))}` });
  }
  await redis.hset(keyspace.workspace(SHARD, workspaceId), workspace);
  const settings = packRecord('billing', {
    version: 1,
    billingId: newId('bill'),
    limitMicros: 9e15,
    answerPart: `"externalMeterId":"${meter}"`,
  });
  await redis.hset(keyspace.billing(SHARD, workspaceId, meter), { s: settings, u: 0 });
  const named = { apiKeyId: keyId, customerId: meter, externalMeterId: meter, metadata: { m: 'm'.repeat(metadata) } };
  return packRecord('key', {
    version: 1,
    state: 'A',
    teamId,
    workspaceId,
    keyId,
    expiresAtMs: 9e12,
    validUntilMs: 9e12,
    ratePerSecond: 1_000_000,
    addressList: '',
    meter,
    scopeFlags: flagCharacter(15).repeat(scopes),
    workspaceFields: JSON.stringify(Object.keys(workspace)),
    answerPart: JSON.stringify(named).slice(1, -1),
  });
}

/**
 * What a script takes at its fastest, in μs, and what it may take here and now by the yardstick in turns with it. Whatever else runs
 * here only adds to both, so it is measured until it fits.
 */
async function measure(script: string, nextCall: () => (string | number)[]) {
  const [measured, fixed] = (await Promise.all([
    redis.script('LOAD', script),
    redis.script('LOAD', yardstick),
  ])) as string[];
  const taken: { script: number[]; yardstick: number[] } = { script: [], yardstick: [] };
  for (let round = 1; ; round++) {
    taken.script.push(await microseconds(() => redis.evalsha(measured!, 1, ...nextCall())));
    taken.yardstick.push(await microseconds(() => redis.evalsha(fixed!, 1, 'absent')));
    if (round < ROUNDS) continue;
    const tookUs = Math.min(...taken.script);
    const limitUs = LIMIT_US * Math.max(1, Math.min(...taken.yardstick) / YARDSTICK_US);
    if (tookUs < limitUs || round === MOST_ROUNDS) return { tookUs, limitUs };
  }
}

async function microseconds(run: () => Promise<unknown>): Promise<number> {
  await redis.config('RESETSTAT');
  for (let i = 0; i < CALLS; i++) await run();
  const [, calls, usec] = /^cmdstat_evalsha:calls=(\d+),usec=(\d+)/m.exec(await redis.info('commandstats'))!;
  return Number(usec) / Number(calls);
}

async function answerTo(command: (string | number)[]) {
  const answer = (await redis.eval(scriptText('verify'), 1, ...command)) as string[];
  return readScriptAnswers(answer, 1)[0]!;
}

const worst: { what: string; key: Worst; known: boolean }[] = [
  { what: 'that looks up 100 granted and 100 wanted scopes', key: { scopes: 100, wanted: 100 }, known: false },
  { what: 'with a list of 1,000 addresses', key: { addresses: true }, known: false },
  { what: 'with the longest texts', key: { longTexts: true }, known: false },
  { what: 'of a token that is limited to 100 workspaces', key: { workspaces: 100 }, known: false },
  {
    what: 'with all of it, of a known key',
    key: { scopes: 100, wanted: 100, longTexts: true, addresses: true, workspaces: 100 },
    known: true,
  },
];
for (const { what, key, known } of worst) {
  test(`a verification ${what} costs Redis less than ${LIMIT_US} μs`, async () => {
    const commandOf = await worstKey(key);
    const first = await answerTo(commandOf(NO_LOOKUP));
    assert.is(first.fields.status, 'VALID', first.fields.reason);
    const lookup = known ? first.newLookup!.lookup : NO_LOOKUP;
    assert.is((await answerTo(commandOf(lookup))).newLookup === undefined, known);
    const { tookUs, limitUs } = await measure(scriptText('verify'), () => commandOf(lookup));
    assert.ok(tookUs < limitUs, `${tookUs.toFixed()} μs; the limit is ${limitUs.toFixed()} here and now`);
  });
}

test.run();
