// Events as the Lua scripts append them to the outbox of a real Redis: the protocol of event.ts, field by field.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf, eventColumns, EVENT_FIELD, type UsageEvent } from './event.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { keyspace, meterShard } from '../stores/keyspace.ts';
import { encodeEvent, testEvent } from '../../tests/helpers/events.ts';
import { readEvents } from '../../tests/helpers/outbox.ts';
import { makeCustomers, makeWorld, must, newWorkspace } from '../../tests/helpers/world.ts';

const TEXT = '/a?q=\'"\\é漢';

const world = await makeWorld(['verify']);
const { redis } = world;
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);

test('a verification that verify.lua appends reads back with every field, and is written again as the same bytes', async () => {
  const { key, id: keyId, shard, billingId } = await meteredKey();
  for (const usageName of ['tokens', TEXT]) await verify({ key, route: TEXT, billing: { usage: '1.5', usageName } });
  const entries = await eventsOf(billingId, shard);
  const epoch = await epochOf(shard);
  assert.is(entries.length, 2);
  for (const [i, { ms, value, event }] of entries.entries()) {
    const counted = { costMicros: 1_500_000, usedMicros: (i + 1) * 1_500_000, sequence: i + 1, epoch };
    const usageName = ['tokens', TEXT][i]!;
    const wanted = { ...stamped(event), keyId, billingId, workspaceId, usageName, route: TEXT, ...counted };
    assert.equal(event, testEvent(wanted));
    assert.match(event.id, /^evt_/);
    assert.ok(ms - event.timeMs >= 0 && ms - event.timeMs < 1_000, 'stamped by the clock of Redis');
    assert.is(encodeEvent(event), value);
  }
});

test('a verification carries its workspace and the customer of its key, whatever characters it has; without a meter it counts nothing', async () => {
  const odd = ['cus_acme', 'a"b', '\\', '\\"', '"', 'x",', '","metadata":', 'a\\\\"b\\', '漢 é', '/'];
  const texts = [...odd, '"'.repeat(256), '漢'.repeat(256)];
  for (const customerId of texts) {
    for (const externalMeterId of [undefined, (await customers.meteredKey('1')).meter]) {
      const { key, id } = await customers.newKey({ customerId, externalMeterId, metadata: { customerId: 'other' } });
      await verify({ key });
      const entries = (await Promise.all(ALL_SHARDS.map(outbox))).flat().filter(({ event }) => event.keyId === id);
      assert.is(entries.length, 1);
      const { event, value } = entries[0]!;
      assert.equal([event.workspaceId, event.customerId], [workspaceId, customerId]);
      const { billingId, usedMicros, sequence, epoch, costMicros } = event;
      if (!externalMeterId) assert.equal([billingId, usedMicros, sequence, epoch, costMicros], ['', 0, 0, 0, 0]);
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
  const numbers = { sequence: 1, epoch: await epochOf(shard), number: 1 };
  const counted = { costMicros: -2_000_000, usedMicros: 3_000_000, ...numbers };
  const told = { usageName: 'tokens', day, actor: tokenId, reason: TEXT };
  const wanted = { ...stamped(event), kind: 'adjustment' as const, id, keyId: '', billingId, workspaceId };
  assert.equal(event, testEvent({ ...wanted, ...counted, ...told }));
});

test('usage_events has exactly the columns of the table of fields, besides the time of the insert and what follows from them', async () => {
  const answer = await world.books.client.query({ query: 'describe table usage_events', format: 'JSONEachRow' });
  const columns = (await answer.json<{ name: string }>()).map(({ name }) => name);
  assert.equal(columns.toSorted(), [...eventColumns, 'inserted_at', 'precedence'].toSorted());
});

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
