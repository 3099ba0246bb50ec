import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { EVENT_FIELD } from '../../shared/events/event.ts';
import { beginCount, COUNTS_KEPT_MS, encodeRefusal, REFUSALS_KEPT_MS } from '../../shared/events/outcome.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { newId } from '../../shared/values/ids.ts';
import { eventually } from '../../tests/helpers/world.ts';
import { makeConsumerWorld, numbered, type ConsumerWorld } from './helpers/consumer-world.ts';

// Outcomes on their way from the outbox to the books.

let own: ConsumerWorld;
const test = suite('inserting outcomes');
test.before(async () => void (own = await makeConsumerWorld()));
test.after.each(() => own.stopConsuming());
test.after(() => own?.stop());

const SHARD = 5;
const MINUTE = Math.floor(Date.now() / 60_000) * 60;
const count = (keyId: string, calls: number, minuteSeconds = MINUTE, boot = 'boot') => {
  const cell = { boot, minuteSeconds, teamId: 'team_1', workspaceId: 'ws_1', status: 'DISABLED', reason: 'DISABLED' };
  return `${beginCount({ ...cell, limit: '', keyId, customerId: '', route: 'GET /ü', wouldRefuse: 0 })}${calls}}`;
};
const refusal = (keyId: string, id: string, timeMs: number) => {
  const told = { id, timeMs, workspaceId: 'ws_1', keyId, meter: '', status: 'DISABLED', reason: 'DISABLED' };
  return encodeRefusal({ ...told, limitedBy: '', route: '' });
};
const append = (...lines: string[]) => own.node.client.xadd(keyspace.outbox(SHARD), '*', EVENT_FIELD, lines.join('\n'));
const untilDrained = () => eventually('all is acknowledged', async () => (await own.waiting()).entries === 0);

async function counted(keyId: string): Promise<number> {
  const [row] = await own.rows<{ calls: string }>(
    'select sum(calls) as calls from refusals final where key_id = {keyId:String}',
    { keyId },
  );
  return Number(row!.calls);
}

test('of a count that comes again, and in any order, the largest stays; other processes and minutes are added', async () => {
  const keyId = newId('key');
  own.consume(own.reader('c1'));
  await append(count(keyId, 3), count(keyId, 7));
  await untilDrained();
  await append(count(keyId, 5));
  await append(count(keyId, 7));
  await untilDrained();
  assert.is(await counted(keyId), 7);
  await append(count(keyId, 10, MINUTE - 60), count(keyId, 100, MINUTE, 'another'));
  await untilDrained();
  assert.is(await counted(keyId), 117);
});

test('entries that were inserted and not acknowledged come again and count once', async () => {
  const keyId = newId('key');
  await append(count(keyId, 4), refusal(keyId, 'one', Date.now()));
  const first = own.consume(own.unacknowledged('c1'));
  await eventually('inserted', async () => (await counted(keyId)) === 4);
  await first.stop();
  assert.is((await own.waiting()).entries, 1);
  own.consume(own.reader('c2', 300));
  await untilDrained();
  assert.is(await counted(keyId), 4);
  const recent = await own.rows('select * from recent_refusals final where key_id = {keyId:String}', { keyId });
  assert.is(recent.length, 1);
});

test('what is no outcome is set aside, and its neighbours are inserted', async () => {
  const keyId = newId('key');
  own.consume(own.reader('c1'));
  await append('{"x":"refusals","i":1}', count(keyId, 2), '{"x":"refused"', count(keyId, 1, -1));
  await untilDrained();
  assert.is(await counted(keyId), 2);
  assert.is(await own.node.client.xlen(keyspace.dead(SHARD)), 3);
});

test('what is older than its lifetime, or of the future, is not inserted, and what is there ends with it', async () => {
  const keyId = newId('key');
  const [tooOld, tooLate] = [Date.now() - COUNTS_KEPT_MS - 60_000, Date.now() + 86_400_000].map((ms) =>
    Math.floor(ms / 1000),
  );
  own.consume(own.reader('c1'));
  await append(count(keyId, 1, tooOld), count(keyId, 2, tooLate), count(keyId, 4));
  await append(refusal(keyId, 'old', Date.now() - REFUSALS_KEPT_MS - 1_000), refusal(keyId, 'new', Date.now()));
  await untilDrained();
  assert.is(await counted(keyId), 4);
  const recent = () => own.rows('select * from recent_refusals where key_id = {keyId:String}', { keyId });
  assert.is((await recent()).length, 1);

  const { client } = own.books;
  const gone = { key_id: keyId, calls: 9, boot: 'b' };
  await client.insert({
    table: 'refusals',
    values: [{ ...gone, minute: MINUTE - 130 * 86_400 }],
    format: 'JSONEachRow',
  });
  await client.insert({
    table: 'recent_refusals',
    values: [{ key_id: keyId, refusal_id: 'r', time: Date.now() - 40 * 3_600_000 }],
    format: 'JSONEachRow',
  });
  // ClickHouse merges nothing when it is asked while a merge is under way.
  await eventually('what is too old is gone', async () => {
    for (const table of ['refusals', 'recent_refusals'])
      await client.command({ query: `optimize table ${table} final` });
    return (await counted(keyId)) === 4 && (await recent()).length === 1;
  });
});

test('events go on where ClickHouse takes no outcomes, which are dropped and counted', async () => {
  const billingId = newId('bill');
  const { client } = own.books;
  await client.command({ query: 'rename table refusals to refusals_away' });
  own.consume(own.reader('c1'));
  await append(count(newId('key'), 1));
  await untilDrained();
  await own.append(billingId, numbered(3));
  await eventually('the events are booked', async () => (await own.booked(billingId)).events === 3);
  assert.match(await own.metrics.registry.metrics(), /keytally_dropped_outcomes_total\{.*\} 1\n/);
  await client.command({ query: 'rename table refusals_away to refusals' });
});

test.run();
