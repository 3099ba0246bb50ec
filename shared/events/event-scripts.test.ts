// Events as the Lua scripts append them to the outbox of a real Redis: the protocol of event.ts, field by field.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { beginEvent, dayOf, encodeEvent, eventColumns, EVENT_FIELD, readEvents, type UsageEvent } from './event.ts';
import { newId } from '../values/ids.ts';
import { ALL_SHARDS, hashKeyText } from '../values/key-text.ts';
import { keyspace, meterShard } from '../stores/keyspace.ts';
import { makeCustomers, must, newWorkspace } from '../../tests/helpers/customers.ts';
import { connectPatiently } from '../../tests/helpers/patient-redis.ts';
import { makeWorld } from '../../tests/helpers/world.ts';

const WITHIN_MS = 30_000;
const TEXT = '/a?q=\'"\\é漢';

const world = await makeWorld(['verify']);
const redis = connectPatiently(world.env.REDIS_URL!);
await redis.connected(WITHIN_MS);
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);
test.after(() => redis.close());

test('a verification that verify.lua appends reads back with every field, and is written again as the same bytes', async () => {
  const { key, id: keyId, shard, billingId } = await meteredKey();
  for (const usageName of ['tokens', TEXT]) await verify({ key, route: TEXT, billing: { usage: '1.5', usageName } });
  const entries = await eventsOf(billingId, shard);
  const epoch = await epochOf(shard);
  assert.is(entries.length, 2);
  for (const [i, { ms, value, event }] of entries.entries()) {
    assert.equal(event, {
      ...stamped(event),
      kind: 'verification',
      keyId,
      billingId,
      workspaceId,
      customerId: '',
      usageName: ['tokens', TEXT][i],
      route: TEXT,
      costMicros: 1_500_000,
      usedMicros: (i + 1) * 1_500_000,
      sequence: i + 1,
      epoch,
      ...NO_ADJUSTMENT,
    });
    assert.match(event.id, /^evt_/);
    assert.ok(ms - event.timeMs >= 0 && ms - event.timeMs < 1_000, 'stamped by the clock of Redis');
    assert.is(encodeEvent(event), value);
  }
});

test('a verification without a meter has no billing record, balance, sequence number or epoch', async () => {
  const { key, id: keyId } = await customers.newKey();
  await verify({ key });
  const all = (await Promise.all(ALL_SHARDS.map(outbox))).flat();
  const entries = all.filter(({ event }) => event.keyId === keyId);
  assert.is(entries.length, 1);
  const { event, value } = entries[0]!;
  const { billingId, usedMicros, sequence, epoch, costMicros } = event;
  assert.equal({ billingId, usedMicros, sequence, epoch, costMicros }, ZEROES);
  assert.is(encodeEvent(event), value);
});

test('a verification carries its workspace and the customer of its key, whatever characters it has', async () => {
  const texts = [
    'cus_acme',
    'a"b',
    '\\',
    '\\"',
    '"',
    'x",',
    '","metadata":',
    'a\\\\"b\\',
    '漢 é',
    '/',
    '"'.repeat(256),
    '漢'.repeat(256),
  ];
  for (const customerId of texts) {
    for (const externalMeterId of [undefined, (await customers.meteredKey('1')).meter]) {
      const { key, id } = await customers.newKey({ customerId, externalMeterId, metadata: { customerId: 'other' } });
      await verify({ key });
      const { event, value } = (await Promise.all(ALL_SHARDS.map(outbox)))
        .flat()
        .find((one) => one.event.keyId === id)!;
      assert.equal([event.workspaceId, event.customerId], [workspaceId, customerId]);
      assert.is(encodeEvent(event), value);
    }
  }
});

test('an adjustment that adjust.lua appends reads back with every field', async () => {
  const { key, shard, billingId } = await meteredKey();
  await verify({ key, billing: { usage: '5' } });
  const day = `${new Date().toISOString().slice(0, 7)}-01`;
  const body = { amount: '-2', reason: TEXT, day, usageName: 'tokens' };
  const path = `/api/v1/customer-billing/${billingId}/adjustment`;
  const answer = await must(201, world.call('post', path, body, { headers: { 'Idempotency-Key': 'once' } }));
  const { id, tokenId } = answer.body.adjustment;
  const { event } = (await eventsOf(billingId, shard))[1]!;
  assert.equal(event, {
    ...stamped(event),
    kind: 'adjustment',
    id,
    keyId: '',
    billingId,
    workspaceId,
    customerId: '',
    usageName: 'tokens',
    route: '',
    costMicros: -2_000_000,
    usedMicros: 3_000_000,
    sequence: 1,
    epoch: await epochOf(shard),
    day,
    number: 1,
    actor: tokenId,
    reason: TEXT,
    ...NO_ACCOUNT,
  });
});

test('a settlement that settle.lua appends, and a witness that witness.lua appends, read back with every field', async () => {
  const { key, shard, billingId, meter } = await meteredKey();
  await verify({ key, billing: { usage: '5' } });
  const node = redis.node(shard);
  const epoch = await epochOf(shard);
  const [meta, stream] = [keyspace.meta(shard), keyspace.outbox(shard)];
  const ids = { settlement: newId('evt'), witness: newId('evt'), later: newId('evt') };

  const settlement = beginEvent({ kind: 'settlement', id: ids.settlement, billingId, workspaceId });
  const late = { micros: 7_000_000, events: 3, from: 0, to: 0, adjustedMicros: 0, lastBalance: '' };
  const settleArgs = [node.runId(), node.notAfter(WITHIN_MS), epoch, ...Object.values(late), settlement, ''];
  const record = keyspace.billing(shard, workspaceId, meter);
  const settled = await node.script('settle', [meta, stream, record], settleArgs, WITHIN_MS);
  assert.equal([settled[0], settled[2], settled[3]], ['OK', 'OK', '7000000']);

  const lost = { epoch: epoch - 1, sequence: 9, usedMicros: 8_000_000 };
  const witness = beginEvent({ kind: 'witness', id: ids.witness, billingId, ...lost });
  const witnessArgs = [node.runId(), node.notAfter(WITHIN_MS), lost.epoch, lost.sequence, witness];
  const keys = [meta, stream, keyspace.keyText(shard, 'unknown')];
  const handedOver = await node.script('witness', keys, witnessArgs, WITHIN_MS);
  assert.equal([handedOver[0], handedOver[2]], ['OK', '1']);

  const later = beginEvent({ kind: 'witness', id: ids.later, billingId, ...lost });
  const known = [meta, stream, keyspace.keyText(shard, hashKeyText(key))];
  assert.is((await node.script('witness', known, [...witnessArgs.slice(0, 4), later], WITHIN_MS))[2], '1');

  const [, ...told] = await eventsOf(billingId, shard);
  const nothing = { keyId: '', customerId: '', usageName: '', costMicros: 0, route: '', ...NO_ADJUSTMENT };
  const wanted = [
    { kind: 'settlement', id: ids.settlement, workspaceId, epoch, sequence: 2, usedMicros: 12_000_000 },
    // The record of its key is gone: the consumer takes it from Postgres.
    { kind: 'witness', id: ids.witness, workspaceId: '', ...lost },
    { kind: 'witness', id: ids.later, workspaceId, ...lost },
  ];
  assert.is(told.length, wanted.length);
  for (const [i, { event }] of told.entries()) {
    assert.equal(event, { ...stamped(event), ...nothing, ...wanted[i], billingId });
  }
});

test('usage_events has exactly the columns of the table of fields, besides the time of the insert', async () => {
  const answer = await world.books.client.query({ query: 'describe table usage_events', format: 'JSONEachRow' });
  const columns = (await answer.json<{ name: string }>()).map(({ name }) => name);
  assert.equal(columns.toSorted(), [...eventColumns, 'inserted_at'].toSorted());
});

const NO_ACCOUNT = { heldMicros: 0, holdId: '', holdMicros: 0, detail: '', crossed: '' };
const NO_ADJUSTMENT = { number: 0, actor: '', reason: '', ...NO_ACCOUNT };
const ZEROES = { billingId: '', usedMicros: 0, sequence: 0, epoch: 0, costMicros: 0 };

async function meteredKey() {
  const { key, id, meter } = await customers.meteredKey('1000');
  const { id: billingId } = await customers.billing(meter);
  return { key, id, meter, billingId, shard: meterShard(workspaceId, meter) };
}

/** What a test can't know: the identity and the time of an event. */
function stamped({ id, timeMs }: UsageEvent) {
  return { id, timeMs, day: dayOf(timeMs) };
}

async function verify(body: object): Promise<void> {
  const answer = await must(200, customers.verify(body));
  assert.is(answer.body.status, 'VALID', answer.text);
}

async function eventsOf(billingId: string, shard: number) {
  return (await outbox(shard)).filter(({ event }) => event.billingId === billingId);
}

/** The entries of a shard's outbox: when Redis appended each, and what it holds. */
async function outbox(shard: number): Promise<{ ms: number; value: string; event: UsageEvent }[]> {
  const entries = await redis.node(shard).client.xrange(keyspace.outbox(shard), '-', '+');
  return entries.flatMap(([id, fields]) => {
    assert.equal([fields[0], fields.length], [EVENT_FIELD, 2]);
    const values = fields[1]!.split('\n');
    return readEvents(fields).map((event, i) => ({ ms: Number(id.split('-')[0]), value: values[i]!, event }));
  });
}

async function epochOf(shard: number): Promise<number> {
  return Number(await redis.node(shard).client.hget(keyspace.meta(shard), 'epoch'));
}
