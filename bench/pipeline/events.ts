import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { encodeEvent, EVENT_FIELD } from '../../shared/events/event.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { newId } from '../../shared/values/ids.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';

const RECORDS = 200;
const AT_ONCE = 5_008;
// As many verifications as a busy verify process gives to one script.
const EVENTS_PER_ENTRY = 16;
const COST_MICROS = 2_317;

/** Appends `count` events to the outboxes exactly as verify.lua does, spread over 200 billing records. Redis is one server. */
export async function fillOutbox(redis: ShardedRedis, count: number, told: (done: number) => void): Promise<void> {
  const records = Array.from({ length: RECORDS }, () => {
    const billingId = newId('bill');
    return { billingId, keyId: newId('key') };
  });
  const workspaceId = newId('ws');
  const now = await redis.now();
  for (let done = 0; done < count; done += AT_ONCE) {
    const upTo = Math.min(count, done + AT_ONCE);
    await Promise.all(
      [...redis.byNode()].map(async ([node, shards]) => {
        const pipeline = node.client.pipeline();
        let lines: string[] = [];
        for (let i = done; i < upTo; i++) {
          const { billingId, keyId } = records[i % RECORDS]!;
          const sequence = Math.floor(i / RECORDS) + 1;
          const ids = { id: newId('evt'), keyId, billingId, workspaceId, customerId: 'cus_acme' };
          const names = { ...ids, usageName: 'tokens', route: '/v1/chat/completions' };
          const numbers = {
            timeMs: now,
            costMicros: COST_MICROS,
            usedMicros: COST_MICROS * sequence,
            epoch: 1,
            sequence,
          };
          lines.push(encodeEvent(testEvent({ ...names, ...numbers })));
          if (lines.length < EVENTS_PER_ENTRY && i + 1 < upTo) continue;
          const shard = shards[Math.floor(i / EVENTS_PER_ENTRY) % shards.length]!;
          pipeline.xadd(keyspace.outbox(shard), '*', EVENT_FIELD, lines.join('\n'));
          pipeline.incrby(keyspace.more(shard), lines.length - 1);
          lines = [];
        }
        for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
      }),
    );
    told(upTo);
  }
}

/** What is wrong with the books after `count` events, if anything. */
export async function checkBooks(url: string, count: number): Promise<string | undefined> {
  const books = connectClickHouse(url);
  try {
    const answer = await books.client.query({
      query: `select toFloat64(sum(n)) as events, toUInt32(countIf(n != last or cost != balance)) as wrong from (
                select count() as n, max(seq) as last, sum(cost_micros) as cost, max(used_micros) as balance
                from usage_events final group by billing_id)`,
      format: 'JSONEachRow',
    });
    const [found] = await answer.json<{ events: number; wrong: number }>();
    await books.client.command({ query: 'truncate table usage_events' });
    if (found?.events !== count) return `the books have ${found?.events} events of ${count}`;
    return found.wrong > 0 ? `the books of ${found.wrong} records do not add up` : undefined;
  } finally {
    await books.close();
  }
}
