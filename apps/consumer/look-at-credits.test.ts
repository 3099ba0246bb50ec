// Whether a record's credits are exhausted, where something changes while somebody looks.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey } from '../../shared/books/billing-refs.ts';
import { noteCreditLooks } from '../../shared/books/credit-states.ts';
import { packRecord } from '../../shared/stores/records.ts';
import { testEvent, testLine } from '../../tests/helpers/events.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';
import { lookAt, takeLooks } from './look-at-credits.ts';
import { notifyCredits } from './notify-credits.ts';

const own = await makeConsumerWorld();

async function makeUsed(usedMicros: number) {
  const { billingId: id, workspaceId } = await own.storeKeyAndBilling();
  const { sql, redis, node } = own;
  const told = await own.listen(workspaceId);
  const settings = packRecord('billing', { version: 1, billingId: id, limitMicros: 0, answerPart: '' });
  const key = billingKey({ id, workspaceId, shard: 0, externalMeterId: 'm' });
  await node.client.hset(key, { s: settings, u: usedMicros });
  const notes = async () => (await sql`select from credit_looks where billing_id = ${id}`).count;
  return {
    id,
    workspaceId,
    notes,
    /** What of it is told in all, after somebody looked once more, and after `meanwhile` between the note and the look. */
    async look(meanwhile = async () => {}): Promise<string[]> {
      const looks = await takeLooks(sql);
      await meanwhile();
      await lookAt(sql, redis, looks);
      const events = [...(await told('credits.exhausted')), ...(await told('credits.replenished'))];
      return events
        .toSorted((a, b) => a.sequence - b.sequence)
        .map(({ type, data }) => `${type} ${data['usedCredits'] as string}`);
    },
    change: (changed: object) => own.sql`update billing_records set ${own.sql(changed as never)} where id = ${id}`,
  };
}

test('a refill that comes while somebody looks is seen by the next look', async () => {
  const { id, look, change, notes } = await makeUsed(10_000_000);
  await change({ allowOverages: false, totalMicros: 10_000_000 });
  await noteCreditLooks(own.sql, [id]);
  const refill = async () => {
    await change({ totalMicros: 20_000_000 });
    await noteCreditLooks(own.sql, [id]);
  };
  assert.equal(await look(refill), [], 'who was asked since then knows more');
  assert.is(await notes(), 1);
  assert.equal(await look(), []);
  assert.is(await notes(), 0);
});

test("credits that are exhausted by the operator's change alone are told once, and replenished by the next one", async () => {
  for (const [less, more] of [
    [{ allowOverages: false }, { allowOverages: true }],
    [{ spendCapMicros: 5_000_000 }, { spendCapMicros: 5_000_001 }],
  ]) {
    const { id, look, change } = await makeUsed(5_000_000);
    const [gone, back] = ['credits.exhausted 5', 'credits.replenished 5'];
    for (const [changed, told] of [
      [less!, [gone]],
      [less!, [gone]],
      [more!, [gone, back]],
      [less!, [gone, back, gone]],
    ] as const) {
      await change(changed);
      await noteCreditLooks(own.sql, [id]);
      assert.equal(await look(), told);
    }
  }
});

test('who used up their credits, was given some back, or has others from a moment on is looked at', async () => {
  const { id: billingId, workspaceId, change, notes } = await makeUsed(5);
  await change({ allowOverages: false, totalMicros: 10 });
  const of = { billingId, workspaceId };
  for (const [event, isLookedAt] of [
    [testEvent({ ...of, usedMicros: 9 }), 0],
    [testEvent({ ...of, usedMicros: 10 }), 1],
    [testEvent({ ...of, kind: 'adjustment', costMicros: -1, reason: 'r', actor: 'a', number: 1 }), 1],
    [testLine('moment', of), 1],
    [testEvent({ ...of, workspaceId: 'ws_unheard', usedMicros: 10 }), 0],
  ] as const) {
    await notifyCredits(own.sql, own.redis.clock, () => {}, [event]);
    assert.is(await notes(), isLookedAt, event.kind);
    await own.sql`delete from credit_looks where billing_id = ${billingId}`;
  }
});
