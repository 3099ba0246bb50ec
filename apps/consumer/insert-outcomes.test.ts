import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { beginCount, COUNTS_KEPT_MS, encodeRefusal, REFUSALS_KEPT_MS } from '../../shared/events/outcome.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { newId } from '../../shared/values/ids.ts';
import { impatient } from '../../tests/helpers/carry.ts';
import { makeDelivery } from './consume.ts';
import { makeConsumerWorld, type ConsumerWorld } from './helpers/consumer-world.ts';

// Outcomes on their way from the outbox to the books.

let own: ConsumerWorld;
test.before.each(async () => void (own = await makeConsumerWorld()));

const SHARD = 5;
const MINUTE = Math.floor(Date.now() / 60_000) * 60;
const count = (keyId: string, calls: number, minuteSeconds = MINUTE, boot = 'boot') => {
  const cell = { boot, minuteSeconds, teamId: 'team_1', workspaceId: 'ws_1', status: 'DISABLED', reason: 'DISABLED' };
  return `${beginCount({ ...cell, limit: 'key/ü', keyId, wouldRefuse: 0 })}${calls}}`;
};
const refusal = (keyId: string, id: string, timeMs: number) => {
  const told = { id, timeMs, workspaceId: 'ws_1', keyId, meter: '', status: 'DISABLED', reason: 'DISABLED' };
  return encodeRefusal({ ...told, limitedBy: '', route: '', address: '' });
};
const append = (...lines: string[]) => own.appendEntry(SHARD, ...lines);

async function counted(keyId: string): Promise<number> {
  const query = 'select toUInt32(sum(calls)) as calls from refusals final where key_id = {keyId:String}';
  return (await own.rows<{ calls: number }>(query, { keyId }))[0]!.calls;
}
const recent = (keyId: string) =>
  own.rows('select * from recent_refusals final where key_id = {keyId:String}', { keyId });

test('of a count that comes again, and in any order, the largest stays; other processes and minutes are added', async () => {
  const keyId = newId('key');
  await append(count(keyId, 3), count(keyId, 7));
  await own.carry();
  await append(count(keyId, 5));
  await append(count(keyId, 7));
  await own.carry();
  assert.is(await counted(keyId), 7);
  await append(count(keyId, 10, MINUTE - 60), count(keyId, 100, MINUTE, 'another'));
  await own.carry();
  assert.is(await counted(keyId), 117);
});

test('entries that were inserted and not acknowledged come again and count once; what is no outcome is set aside', async () => {
  const keyId = newId('key');
  const odd = ['{"x":"refusals","i":1}', '{"x":"refused"', count(keyId, 1, -1)];
  await append(count(keyId, 4), odd[0]!, refusal(keyId, 'one', Date.now()), ...odd.slice(1));
  await own.carryUntil('notifying webhooks of limits');
  assert.equal([await counted(keyId), (await own.waiting()).entries], [4, 1]);
  await own.carry();
  assert.equal([await counted(keyId), (await recent(keyId)).length], [4, 1]);
  assert.is(await own.node.client.xlen(keyspace.dead(SHARD)), 3);
});

test('what is older than its lifetime, or of the future, is not inserted', async () => {
  const keyId = newId('key');
  const [tooOld, tooLate] = [Date.now() - COUNTS_KEPT_MS - 60_000, Date.now() + 86_400_000].map((ms) =>
    Math.floor(ms / 1000),
  );
  await append(count(keyId, 1, tooOld), count(keyId, 2, tooLate), count(keyId, 4));
  await append(refusal(keyId, 'old', Date.now() - REFUSALS_KEPT_MS - 1_000), refusal(keyId, 'new', Date.now()));
  await own.carry();
  assert.equal([await counted(keyId), (await recent(keyId)).length], [4, 1]);
});

test('outcomes that ClickHouse refuses again and again are dropped and counted: events wait behind them', async () => {
  const { books, metrics } = own;
  const { outcomes } = await append(count(newId('key'), 1)).then(() => own.read());
  const { deliverOutcomes } = makeDelivery({ ...own, now: own.redis.now, clock: impatient });
  await books.client.command({ query: 'rename table refusals to refusals_away' });
  try {
    await deliverOutcomes(outcomes, new AbortController().signal);
  } finally {
    await books.client.command({ query: 'rename table refusals_away to refusals' });
  }
  assert.match(await metrics.registry.metrics(), /keytally_dropped_outcomes_total\{.*\} 1\n/);
});
