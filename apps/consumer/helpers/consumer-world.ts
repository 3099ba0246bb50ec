import * as assert from 'uvu/assert';
import { EVENT_FIELD, type UsageEvent } from '../../../shared/events/event.ts';
import { makeOutboxReader } from '../../../shared/events/outbox-reader.ts';
import type { Batch, Source } from '../../../shared/events/pump.ts';
import { newId } from '../../../shared/values/ids.ts';
import { ALL_SHARDS, shardOf, SHARDS } from '../../../shared/values/key-text.ts';
import { webhookEventTypes } from '../../../shared/contract/webhook-event-types.ts';
import { keyspace, OUTBOX_GROUP } from '../../../shared/stores/keyspace.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { anyDisk, bookEvents, carryAll } from '../../../tests/helpers/carry.ts';
import { encodeEvent, testEvent } from '../../../tests/helpers/events.ts';
import { connectTestStores, type TestStores } from '../../../tests/helpers/test-stores.ts';

/** Stores without programs, with what tests of the consumer do in its outbox and its books. */
export type ConsumerWorld = Awaited<ReturnType<typeof makeConsumerWorld>>;

/** What a webhook was told. */
type ToldEvent = {
  id: string;
  type: string;
  subjectId: string;
  sequence: number;
  at: number;
  data: Record<string, string | number | object | undefined>;
};

// These tests make things fail on purpose.
const log = makeLogger('test', 'silent');
const never = new AbortController().signal;

export async function makeConsumerWorld() {
  const stores = await connectTestStores();
  // Without the scripts no shard is open.
  await stores.redis.node(0).script('group', [keyspace.outbox(0)], [OUTBOX_GROUP], 5_000);
  return {
    ...stores,
    log,
    node: stores.redis.node(0),
    ...outboxTools(stores),
    ...booksTools(stores),
    ...rowsTools(stores),
  };
}

function outboxTools(stores: TestStores) {
  const { redis } = stores;
  const node = redis.node(0);
  const metrics = makeMetrics('test');
  const reader = (name: string, more: Partial<Parameters<typeof makeOutboxReader>[0]> = {}): Source =>
    makeOutboxReader({ node, shards: [...ALL_SHARDS], name, metrics, log, disk: anyDisk, ...more });
  const eventsOf = async (billingId: string, count: number): Promise<string[]> => {
    const timeMs = await redis.now();
    const numbers = Array.from({ length: count }, (_, i) => i + 1);
    return numbers.map((sequence) => encodeEvent(testEvent({ timeMs, billingId, usedMicros: sequence, sequence })));
  };
  return {
    metrics,
    /** A reader of all outboxes, under a consumer's name. */
    reader,
    /** What a new reader gives first. */
    async read(source = reader('test')): Promise<Batch> {
      for (;;) {
        const batch = await source.read(never);
        if (batch) return batch;
      }
    },
    /** Carries all that waits to the books, as a consumer does. */
    carry: () => carryAll(stores, { metrics, log }),
    /** Carries what waits as a consumer that dies at a step: nothing is acknowledged. */
    async carryUntil(step: string): Promise<void> {
      const died = await carryAll(stores, { metrics, log }, step).catch((error: Error) => error);
      assert.match(String(died), /it died/);
    },
    /** Appends an entry as it is. */
    appendEntry: (shard: number, ...lines: string[]) =>
      node.client.xadd(keyspace.outbox(shard), '*', EVENT_FIELD, Buffer.from(lines.join('\n'), 'latin1')),
    /** Appends so many events of a record as verify.lua does, each by a script of its own. */
    async append(billingId: string, count: number): Promise<void> {
      for (const event of await eventsOf(billingId, count)) await this.appendEntry(shardOf(billingId), event);
    },
    /** Appends them as verify.lua does with those of one script, and lines that are none after the first of them. */
    async appendTogether(billingId: string, count: number, others: string[] = []): Promise<void> {
      const [first = '', ...more] = await eventsOf(billingId, count);
      await this.appendEntry(shardOf(billingId), first, ...others, ...more);
      await node.client.incrby(keyspace.more(shardOf(billingId)), more.length + others.length);
    },
    /** Entries in all outboxes, and how many of them were delivered but not acknowledged. */
    async waiting(): Promise<{ entries: number; pending: number }> {
      const sum = { entries: 0, pending: 0 };
      for (let shard = 0; shard < SHARDS; shard++) {
        sum.entries += await node.client.xlen(keyspace.outbox(shard));
        const pending = await node.client.xpending(keyspace.outbox(shard), OUTBOX_GROUP).catch(() => [0]);
        sum.pending += pending[0] as number;
      }
      return sum;
    },
  };
}

function booksTools(stores: TestStores) {
  const { sql, books } = stores;
  const rows = async <Row>(query: string, query_params: Record<string, unknown> = {}): Promise<Row[]> =>
    (await books.client.query({ query, query_params, format: 'JSONEachRow' })).json<Row>();

  return {
    rows,
    /** Inserts events with their workspaces and marks their days, as the consumer does with a batch. */
    book: (nowMs: number, events: UsageEvent[]) => bookEvents(stores, nowMs, events),
    /** Removes events of a record from the books, as a loss would. */
    async loseEvents(billingId: string, where: string): Promise<void> {
      const query = `alter table usage_events delete where billing_id = {billingId:String} and ${where} settings mutations_sync = 2`;
      await books.client.command({ query, query_params: { billingId } });
    },
    /** The days of a record that are marked as changed. */
    changedDays(billingId: string) {
      return sql<{ day: string; mark: number }[]>`
        select day, mark from usage_marks where billing_id = ${billingId} order by day`;
    },
    /** How many events and micro-credits the books have of a record. */
    async booked(billingId: string): Promise<{ events: number; cost: number }> {
      const [row] = await rows<{ events: number; cost: number }>(
        `select toUInt32(count()) as events, toFloat64(sum(cost_micros)) as cost
         from usage_events final where billing_id = {billingId:String}`,
        { billingId },
      );
      return row!;
    },
  };
}

function rowsTools({ sql, team }: TestStores) {
  return {
    /** Stores a workspace with a key and a billing record in Postgres, and nowhere else. */
    async storeKeyAndBilling() {
      const [workspaceId, keyId, billingId] = [newId('ws'), newId('key'), newId('bill')];
      await sql`insert into workspaces (id, team_id, name) values (${workspaceId}, ${team.id}, 'w')`;
      await sql`insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled)
                values (${keyId}, ${team.id}, ${workspaceId}, 0, 'k', 'key', '', true)`;
      await sql`insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
                values (${billingId}, ${team.id}, ${workspaceId}, 'm', 0, 0, true)`;
      return { workspaceId, keyId, billingId };
    },
    /** A webhook that wants all events of a workspace; gives what it was told of a type. */
    async listen(workspaceId: string) {
      const id = newId('hook');
      await sql`
        insert into webhooks (id, team_id, workspace_id, url, events)
        values (${id}, ${team.id}, ${workspaceId}, 'https://hooks.example.com', ${[...webhookEventTypes]})`;
      return (type: string) => sql<ToldEvent[]>`
        select e.id, e.type, e.subject_id, d.sequence, e.at, e.data from webhook_deliveries d
        join webhook_events e on e.id = d.event_id
        where d.webhook_id = ${id} and e.type = ${type} order by e.subject_id, d.sequence`;
    },
  };
}
