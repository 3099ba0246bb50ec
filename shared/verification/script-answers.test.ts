import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../runtime/clock.ts';
import { outboxState, watchOutbox } from '../events/outbox-watch.ts';
import { makeLogger } from '../runtime/log.ts';
import { makeMetrics } from '../runtime/metrics.ts';
import { keyspace } from '../stores/keyspace.ts';
import { flagCharacter, packRecord } from '../stores/records.ts';
import { connectRedis, type ShardedRedis } from '../stores/redis.ts';
import { BEGIN_MS, connectClockedRedis } from '../../tests/helpers/clocked-redis.ts';
import { column, columns } from '../../tests/helpers/columns.ts';
import { readEvents } from '../../tests/helpers/outbox.ts';
import { makeOwnRedis } from '../../tests/helpers/own-redis.ts';
import { newId } from '../values/ids.ts';
import { scopeMark } from '../stores/scope-mark.ts';
import {
  NO_LOOKUP,
  packCall,
  packQuestion,
  readLookup,
  readScriptAnswers,
  scriptArguments,
  TICKS_PER_SECOND,
  type ScriptAnswer,
} from './script-protocol.ts';

// Runs the real scripts with what script-protocol.ts and records.ts pack, and reads every field of their answers.

const SHARD = 7;
const WITHIN_MS = 30_000;
const OTHER_SHARD = 8;
let redis: ShardedRedis;
const clocked = await connectClockedRedis();
({ redis } = clocked);

// Every value is another one, so that two that are swapped are seen.
const workspaceId = newId('ws');
const teamId = newId('team');
const keyId = newId('key');
const otherKeyId = newId('key');
const billingId = newId('bill');
const scopeId = newId('scope');
const READ = 2;
const list = `07:${keyId}:hash`;
const asked = { teamId, workspaceIds: [workspaceId, 'ws_other'] };
const wanted = [{ representation: 'docs', read: true }];
const record = {
  version: 41,
  state: 'A',
  teamId,
  workspaceId,
  keyId,
  expiresAtMs: BEGIN_MS + 600_000,
  validUntilMs: BEGIN_MS + 300_000,
  ratePerSecond: 50,
  addressList: list,
  meter: 'meter-1',
  workspaceFields: '["d","s3","s4"]',
  scopeFlags: flagCharacter(READ) + flagCharacter(1),
  answerPart: '"apiKeyId":"key"',
};
const billingRecord = packRecord('billing', {
  version: 42,
  billingId,
  limitMicros: 5_000_000,
  answerPart: '"id":"bill"',
});
const scopes = [
  packRecord('scope', { version: 43, representation: 'docs', scopeId, mark: `#${scopeMark('docs')}` }),
  packRecord('scope', { version: 44, representation: 'pets', scopeId: newId('scope'), mark: `#${scopeMark('pets')}` }),
];
const call = {
  lookup: NO_LOOKUP,
  searchedList: list,
  listed: '1',
  costMicros: 1_500_000,
  idempotencyHash: '',
  usageHash: 'hash of the usage',
  question: packQuestion(asked, wanted),
};

test.before.each(async () => {
  await clocked.empty();
  await prepareShard(SHARD);
});

async function prepareShard(shard: number) {
  const node = redis.node(shard);
  await node.client.hset(keyspace.meta(shard), { owner: node.runId(), epoch: 9, writes: 77 });
  await node.client.hset(keyspace.workspace(shard, workspaceId), {
    d: packRecord('workspace', { version: 45, defaultRatePerSecond: 60, defaultAddressList: 'of the workspace' }),
    s3: scopes[0]!,
    s4: scopes[1]!,
  });
  await node.client.hset(keyspace.billing(shard, workspaceId, 'meter-1'), { s: billingRecord, u: 250_000, n9: 12 });
}

type Changed = {
  shard?: number;
  key?: { [Name in keyof typeof record]?: string | number };
  call?: { [Name in keyof typeof call]?: string | number };
  /** How many calls are alike but for their events, and what these begin with. */
  times?: number;
  event?: string;
};

/** Asks the real script, once for all calls; each has a key record of its own. */
function ask(...calls: Changed[]) {
  return askWhile({ outboxFull: false }, ...calls);
}

async function askWhile({ outboxFull }: { outboxFull: boolean }, ...calls: Changed[]) {
  await storeKeys(calls);
  return send({ outboxFull }, calls);
}

async function storeKeys(calls: Changed[]) {
  const { client } = redis.node(SHARD);
  for (const [i, { shard, key }] of calls.entries())
    await client.set(nameOf(i, shard), packRecord('key', { ...record, ...key }));
}

const nameOf = (place: number, shard = SHARD) => keyspace.keyText(shard, `hash-${place}`);

async function send({ outboxFull }: { outboxFull: boolean }, calls: Changed[]) {
  const node = redis.node(SHARD);
  const keys = calls.map(({ shard }, i) => nameOf(i, shard));
  const packed = calls.flatMap(({ call: changed, times = 1, event }) => [
    packCall({ ...call, ...changed }),
    ...Array.from({ length: times }, () => event ?? eventStart()),
  ]);
  const batch = { runId: node.runId(), notAfterMs: node.notAfter(WITHIN_MS), outboxFull };
  const answer = await node.script('verify', keys, scriptArguments(batch, packed), WITHIN_MS);
  return readScriptAnswers(
    answer,
    calls.map(({ times = 1 }) => times),
  );
}

const usage = '"c":1500000,"n":"tokens"';
const eventStart = (id = newId('evt')) => `{"i":"${id}","r":"GET /docs",${usage}`;

test('the verify script answers every field under its name', async () => {
  await clocked.setNow(BEGIN_MS + 678);
  const [answer] = await ask({});
  const { nowMs, nowTicks, fields, newLookup } = answer!;
  assert.is(nowMs, BEGIN_MS + 678);
  assert.is(Math.floor(nowTicks / (TICKS_PER_SECOND / 1_000)) % 1_000, 678);
  assert.equal(fields, {
    status: 'VALID',
    reason: '',
    usedMicros: '1750000',
    sequence: '13',
    ratePerSecond: '50',
    arrivalTicks: String(nowTicks + TICKS_PER_SECOND / 50),
    askedAtTicks: '',
  });
  assert.equal(readLookup(newLookup!.lookup), {
    epoch: '9',
    writes: '77',
    holdsUntilMs: String(record.validUntilMs),
    addressList: list,
    knownRefusal: '',
    ratePerSecond: '50',
    rateKey: keyspace.rate(SHARD, keyId),
    billingKey: keyspace.billing(SHARD, workspaceId, 'meter-1'),
    limitMicros: '5000000',
    eventIds: `,"k":"${keyId}","b":"${billingId}","v":"${workspaceId}"`,
  });
  const { group: place, keyRecord, billingRecord: settings } = newLookup!;
  assert.equal([place, keyRecord, settings], ['0', packRecord('key', record), billingRecord]);
  assert.equal(newLookup!.scopes.slice(1), scopes);
});

test('a lookup is taken back as it was answered, until the shard counts another write', async () => {
  const [first] = await ask({});
  const { lookup } = first!.newLookup!;
  const [second] = await ask({ call: { lookup } });
  assert.is(second!.newLookup, undefined);
  assert.equal([second!.fields.usedMicros, second!.fields.sequence], ['3250000', '14']);
  await redis.node(SHARD).client.hincrby(keyspace.meta(SHARD), 'writes', 1);
  const [third] = await ask({ call: { lookup } });
  assert.is(readLookup(third!.newLookup!.lookup).writes, '78');
});

test('no lookup outlives its shard: one that was emptied, and counts as many writes, has another epoch', async () => {
  const [first] = await ask({});
  await redis.node(SHARD).client.hset(keyspace.meta(SHARD), 'epoch', 10);
  const [second] = await ask({ key: { state: 'X' }, call: { lookup: first!.newLookup!.lookup } });
  assert.equal([second!.fields.status, readLookup(second!.newLookup!.lookup).epoch], ['DISABLED', '10']);
});

test('a billing record that is gone from Redis is corrupt, and never counts as unused', async () => {
  const [first] = await ask({});
  await redis.node(SHARD).client.del(keyspace.billing(SHARD, workspaceId, 'meter-1'));
  const [second] = await ask({ call: { lookup: first!.newLookup!.lookup } });
  assert.is(second!.fields.status, 'CORRUPT');
});

test('a repeated Idempotency-Key is answered with the first rate limit and its time, and another cost is a conflict', async () => {
  const [first] = await ask({ call: { idempotencyHash: 'once' } });
  const [again] = await ask({ call: { idempotencyHash: 'once' } });
  assert.equal(again!.fields, { ...first!.fields, sequence: '', askedAtTicks: String(first!.nowTicks) });
  const [other] = await ask({ call: { idempotencyHash: 'once', usageHash: 'of another' } });
  assert.is(other!.fields.status, 'CONFLICT');
});

test('an Idempotency-Key is kept for 60 s, whether its call was alone in its script or not', async () => {
  const { client } = redis.node(SHARD);
  const redisMs = async () => {
    const [seconds, micros] = await client.time();
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  };
  const before = await redisMs();
  await ask({ call: { idempotencyHash: 'alone' } });
  await ask({ call: { idempotencyHash: 'beside' } }, {});
  const after = await redisMs();
  for (const hash of ['alone', 'beside']) {
    const ends = await client.pexpiretime(keyspace.idempotency(SHARD, keyId, hash));
    assert.ok(ends >= before + 60_000 && ends <= after + 60_000, `${hash}: ${ends - before} ms`);
  }
});

test('while the outbox is full nothing is kept for an Idempotency-Key', async () => {
  const free = { key: { meter: '' }, call: { idempotencyHash: 'once', costMicros: 0 } };
  const [decided] = await askWhile({ outboxFull: true }, free);
  assert.is(decided!.fields.status, 'VALID');
  assert.is(await redis.node(SHARD).client.exists(keyspace.idempotency(SHARD, keyId, 'once')), 0);
});

const refusals: (Changed & { what: string; status: string; reason: string })[] = [
  { what: "the workspace's addresses", key: { addressList: '' }, status: 'SEARCH', reason: '' },
  { what: 'meter', key: { meter: 'meter-2' }, status: 'USAGE_LIMITED', reason: 'NO_BILLING_RECORD' },
  {
    what: 'flags that are wanted',
    call: { question: packQuestion(asked, [{ representation: 'docs', read: true, del: true }]) },
    status: 'INVALID_SCOPES',
    reason: 'SCOPE_MISSING',
  },
  {
    what: "the caller's team",
    call: { question: packQuestion({ ...asked, teamId: workspaceId }, wanted) },
    status: 'INVALID',
    reason: 'NOT_FOUND',
  },
  {
    what: "the caller's workspaces",
    call: { question: packQuestion({ ...asked, workspaceIds: ['ws_other'] }, wanted) },
    status: 'INVALID',
    reason: 'NOT_FOUND',
  },
];
test('the verify script goes by each field that it is given', async () => {
  for (const { what, status, reason, ...changed } of refusals) {
    const [answer] = await ask(changed);
    assert.equal([answer!.fields.status, answer!.fields.reason], [status, reason], what);
  }
});

test('of several reasons to refuse, the first one in the documented order is the answer', async () => {
  // The key is wrong in every way at once, and each step mends the first one.
  const key: Changed['key'] = { state: 'X', expiresAtMs: 1_000, scopeFlags: 'AB', ratePerSecond: 1 };
  const changed = { key, call: { listed: '', costMicros: 4_750_001 } };
  const answer = async () => {
    const [{ fields }] = (await ask(changed)) as [ScriptAnswer];
    return fields.reason || fields.status;
  };
  for (const [mended, reason] of [
    [{}, 'DISABLED'],
    [{ key: { ...key, state: 'A' } }, 'EXPIRED'],
    [{ key: { ...key, state: 'A', expiresAtMs: 0 } }, 'IP_NOT_ALLOWED'],
    [{ call: { ...changed.call, listed: '1' } }, 'SCOPE_MISSING'],
    [{ key: { ratePerSecond: 1 } }, 'CREDITS_USED_UP'],
    // What was refused has counted nothing: the first call that is not uses the limit up.
    [{ call: { costMicros: 0 } }, 'VALID'],
    [{ call: { costMicros: 4_750_001 } }, 'RATE_LIMIT'],
  ]) {
    Object.assign(changed, mended);
    assert.is(await answer(), reason);
  }
});

test('a key expires, and a secret ends, at its instant and not a millisecond before, known or not', async () => {
  for (const [field, refused] of [
    ['expiresAtMs', ['EXPIRED', 'EXPIRED']],
    ['validUntilMs', ['INVALID', 'NOT_FOUND']],
  ] as const) {
    const key = { expiresAtMs: 0, validUntilMs: 0, [field]: BEGIN_MS + 60_000 };
    await clocked.setNow(BEGIN_MS + 59_999);
    const [before] = await ask({ key });
    assert.is(before!.fields.status, 'VALID', field);
    const known = { key, call: { lookup: before!.newLookup!.lookup } };
    assert.is((await ask(known))[0]!.newLookup, undefined, 'its lookup holds');
    await clocked.setNow(BEGIN_MS + 60_000);
    for (const asked of [{ key }, known]) {
      const [{ fields }] = (await ask(asked)) as [ScriptAnswer];
      assert.equal([fields.status, fields.reason], refused, field);
    }
  }
});

test('a limit per second lets all of it through at once and then one each time its share of the second has passed', async () => {
  const free = { key: { ratePerSecond: 20 }, call: { costMicros: 0 } };
  const passed = async (atMs: number) => {
    await clocked.setNow(BEGIN_MS + atMs);
    const answers = await ask({ ...free, times: 20 }, ...Array.from({ length: 10 }, () => free));
    return answers.filter(({ fields }) => fields.status === 'VALID').length;
  };
  const found = [];
  for (const atMs of [0, 0, 49, 50, 99, 100, 99, 250, 1_250, 9_000]) found.push([atMs, await passed(atMs)]);
  assert.equal(found, [
    [0, 20],
    [0, 0],
    [49, 0],
    [50, 1],
    [99, 0],
    [100, 1],
    // A clock that is set back gives nothing.
    [99, 0],
    [250, 3],
    [1_250, 20],
    [9_000, 20],
  ]);
});

test('a corrupt record spoils no other call, and new lookups name the groups of their calls', async () => {
  const answers = await ask({ key: { workspaceFields: 'none' }, times: 2 }, { key: { state: 'X' }, times: 2 }, {});
  const told = answers.map(({ fields, newLookup }) => [fields.status, fields.reason !== '', newLookup?.group]);
  const [corrupt, disabled] = [
    ['CORRUPT', true, undefined],
    ['DISABLED', true, '1'],
  ];
  assert.equal(told, [corrupt, corrupt, disabled, disabled, ['VALID', false, '2']]);
});

test('the events of one script are one entry, and each call goes by what those before it took', async () => {
  const { client } = redis.node(SHARD);
  const answers = await ask({ times: 2 }, { key: { keyId: otherKeyId } }, { call: { costMicros: 500_000 } }, {});
  assert.equal(columns(column(answers, 'fields'), 'status', 'usedMicros', 'sequence'), [
    ['VALID', '1750000', '13'],
    ['VALID', '3250000', '14'],
    ['VALID', '4750000', '15'],
    ['USAGE_LIMITED', '4750000', ''],
    ['USAGE_LIMITED', '4750000', ''],
  ]);
  const interval = TICKS_PER_SECOND / 50;
  const arrivals = answers.map(({ fields, nowTicks }) => (Number(fields.arrivalTicks) - nowTicks) / interval);
  assert.equal(arrivals, [1, 2, 1, 2, 2]);
  const entries = await client.xrange(keyspace.outbox(SHARD), '-', '+');
  assert.is(entries.length, 1);
  assert.equal(columns(readEvents(entries[0]![1]), 'sequence', 'usedMicros', 'keyId'), [
    [13, 1_750_000, keyId],
    [14, 3_250_000, keyId],
    [15, 4_750_000, otherKeyId],
  ]);
  assert.equal(await client.hmget(keyspace.billing(SHARD, workspaceId, 'meter-1'), 'u', 'n9'), ['4750000', '15']);
});

test('an Idempotency-Key that comes twice in one script is debited once', async () => {
  const once = { call: { idempotencyHash: 'once' } };
  const [first, again, other] = await ask(
    { ...once, times: 2 },
    { call: { idempotencyHash: 'once', usageHash: 'of another' } },
  );
  assert.equal(again!.fields, { ...first!.fields, sequence: '', askedAtTicks: String(first!.nowTicks) });
  assert.is(other!.fields.status, 'CONFLICT');
  assert.is(await redis.node(SHARD).client.hget(keyspace.billing(SHARD, workspaceId, 'meter-1'), 'u'), '1750000');
});

test('an outbox that takes no event takes nothing from any record, and holds up no other shard of the script', async () => {
  const { client } = redis.node(SHARD);
  await prepareShard(OTHER_SHARD);
  await client.set(keyspace.outbox(SHARD), 'no stream');
  const [spoiled, good, unlimited] = await ask(
    {},
    { shard: OTHER_SHARD },
    { key: { meter: '', ratePerSecond: '' }, call: { costMicros: 0 } },
  );
  const found = [spoiled, good, unlimited].map((one) => one!.fields.status);
  assert.equal(found, ['CORRUPT', 'VALID', 'CORRUPT']);
  assert.equal(await client.hmget(keyspace.billing(SHARD, workspaceId, 'meter-1'), 'u', 'n9'), ['250000', '12']);
  assert.is(await client.exists(keyspace.rate(SHARD, keyId)), 0);
  assert.is(await client.xlen(keyspace.outbox(OTHER_SHARD)), 1);
});

test('a batch that Redis has no memory for takes nothing, and what needs none is decided', async () => {
  const [shared, own] = [redis, await makeOwnRedis('no-memory')];
  redis = connectRedis(own.url, makeLogger('test', 'error'), systemClock);
  try {
    await redis.connected(WITHIN_MS);
    await prepareShard(SHARD);
    const calls = [{}, { call: { idempotencyHash: 'once' } }, { key: { state: 'X' } }, {}];
    await storeKeys(calls);
    // It gets the scripts.
    await send({ outboxFull: false }, []);
    const answered = async () =>
      (await send({ outboxFull: false }, calls)).map(({ fields: { status, sequence } }) => status + sequence);

    await own.admin.config('SET', 'maxmemory', 1);
    assert.equal(await answered(), ['OUTBOX_FULL', 'OUTBOX_FULL', 'DISABLED', 'OUTBOX_FULL']);
    const found = (await own.admin.keys('*')).filter((name) => /:(outbox|more|r:.*|i:.*)$/.test(name));
    assert.equal(found, []);
    assert.equal(await own.admin.hmget(keyspace.billing(SHARD, workspaceId, 'meter-1'), 'u', 'n9'), ['250000', '12']);
    // Nor does it hold up what the api changes: a key that is disabled or removed is so at once.
    const node = redis.node(SHARD);
    const disabled = packRecord('key', { ...record, version: 42, state: 'X' });
    const changed = [node.runId(), node.notAfter(WITHIN_MS), 11, '', disabled, 0, '', '42', -1];
    const names = [keyspace.meta(SHARD), nameOf(0), nameOf(3)];
    assert.is((await node.script('apply', names, changed, WITHIN_MS))[0], 'OK');
    // Nor whoever calls with a token that is not kept here.
    assert.is((await node.script('token', [keyspace.meta(SHARD), 'none'], [node.runId()], WITHIN_MS))[0], 'OK');
    const after = await send({ outboxFull: false }, calls);
    assert.equal([after[0]!.fields.status, after[3]!.fields.status], ['DISABLED', 'INVALID']);

    await own.admin.config('SET', 'maxmemory', 0);
    await storeKeys(calls);
    assert.equal(await answered(), ['VALID13', 'VALID14', 'DISABLED', 'VALID15']);
  } finally {
    await redis.close();
    redis = shared;
    await own.remove();
  }
});

test('the limit of the outbox counts events, however many share an entry', async () => {
  const limits = { maxEntries: 4, maxMemoryPercent: Infinity };
  const full = async () => {
    const metrics = makeMetrics('test');
    const watch = watchOutbox(redis, limits, metrics, makeLogger('test', 'silent'));
    // It waits for the look that has begun.
    await watch.stop();
    assert.match(await metrics.registry.metrics(), /outbox_max_entries\{.*\} 4$/m);
    return watch.full();
  };
  const free = { call: { costMicros: 1 } };
  await ask(free, free, free);
  assert.is(await redis.node(SHARD).client.xlen(keyspace.outbox(SHARD)), 1);
  assert.equal([(await outboxState(redis)).events, await full()], [3, false]);
  await ask(free);
  assert.equal([(await outboxState(redis)).events, await full()], [4, true]);
});
