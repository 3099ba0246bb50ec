import { Kafka as Client, logLevel } from 'kafkajs';
import * as assert from 'uvu/assert';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { readConfig } from '../../shared/runtime/config.ts';
import { groups } from '../../shared/runtime/variables.ts';
import { connectKafka } from '../../shared/events/kafka.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { atEnd } from './at-end.ts';
import { must, totalOf } from './customers.ts';
import { decided, eventually, spawnWorld, once, request, type ProcessWorld } from './world.ts';
import { VERIFY_PATH } from '../../shared/verification/operation.ts';

/** A metered key, and the record that it draws on. */
export type Meter = { billingId: string; key: string };
export type KafkaWorld = Awaited<ReturnType<typeof makeKafkaWorld>>;

/** A test file's own world with Kafka between the outbox and the books, and a look at all of them from outside. */
export async function makeKafkaWorld() {
  const world = await spawnWorld(['verify'], { BUS: 'kafka', KAFKA_TOPIC_PARTITIONS: '4' });
  const brokers = [world.env.KAFKA_BROKERS!];
  const settings = { KAFKA_TOPIC_PREFIX: world.env.KAFKA_TOPIC_PREFIX!, KAFKA_TOPIC_PARTITIONS: 4 };
  const config = { ...readConfig(groups.kafka), KAFKA_BROKERS: brokers, ...settings };
  const kafka = connectKafka(config, 'test', makeLogger('test', 'silent'));
  const client = new Client({ clientId: 'outside', brokers, logLevel: logLevel.NOTHING });
  const admin = client.admin();
  const books = readBooks(world.env.CLICKHOUSE_URL!);
  await Promise.all([kafka.ensureTopics(), admin.connect()]);
  atEnd(() => Promise.all([kafka.close(), admin.disconnect(), books.close()]));
  const newMeter = await meterMaker(world);
  const group = `${settings.KAFKA_TOPIC_PREFIX}.books`;
  // A broker that has just started, or a group that is settling, may refuse to answer.
  const progress = () => eventually('how far the group is', () => kafka.progress().catch(() => undefined));

  return {
    world,
    kafka,
    client,
    /** Makes a record with many credits, and a key that draws on it. */
    newMeter,
    /** Verifies a key so many times at 0.25 credits each; every call must be VALID. */
    spend: (meter: Meter, times: number) => spend(world, meter, times),
    /** Waits until all that was spent is in the books, and proves them: nothing is missing, nothing counts twice. */
    async booksAreRight({ billingId }: Meter, events: number): Promise<void> {
      await eventually(`${events} events are in the books`, async () => (await books.line(billingId)).events >= events);
      const wanted = { events, numbers: events, last: events, cost: events * 250_000, balance: events * 250_000 };
      assert.equal(await books.line(billingId), wanted);
      const data: { events: number; totalBillingUsage: string }[] = (
        await must(200, world.call('get', `/api/v1/usage/${billingId}`))
      ).body.data;
      const counted = data.reduce((sum, row) => sum + row.events, 0);
      assert.equal([counted, Number(totalOf(data))], [events, events * 0.25]);
    },
    /** Lets the next consumer begin at the topic's beginning, once Kafka takes those that have ended for gone. */
    async forgetGroup(): Promise<void> {
      const forget = () =>
        admin.deleteGroups([group]).then(
          () => true,
          () => false,
        );
      await eventually('nobody is in the group', forget);
    },
    /** How many records of Kafka the consumers have not committed yet. */
    async lag(): Promise<number> {
      return (await progress()).reduce((sum, { committed, end }) => sum + end - committed, 0);
    },
    /** How many records Kafka was given so far. */
    async records(): Promise<number> {
      return (await progress()).reduce((sum, { end }) => sum + end, 0);
    },
  };
}

async function meterMaker(world: ProcessWorld): Promise<() => Promise<Meter>> {
  const post = async (path: string, body: unknown) =>
    (await must(201, world.call('post', `/api/v1${path}`, body, { headers: once() }))).body;
  const { id: workspaceId } = (await post('/workspace', { name: 'kafka' })).workspace;
  let made = 0;
  return async () => {
    const meter = { workspaceId, externalMeterId: `meter-${made++}` };
    const { billing } = await post('/customer-billing', { ...meter, totalCredits: '1000000' });
    const { apiKey } = await post('/api-key', { ...meter, name: 'key' });
    return { billingId: billing.id, key: apiKey.key };
  };
}

async function spend({ verify, team }: ProcessWorld, { key }: Meter, times: number): Promise<void> {
  const body = { key, route: '/r', billing: { usage: '0.25', usageName: 'tokens' } };
  const verifyOnce = async () => {
    const answer = await decided(
      request(verify!.url + VERIFY_PATH, 'post', { token: team.token, body, headers: once() }),
    );
    assert.is(answer.body.status, 'VALID', answer.text);
  };
  for (let done = 0; done < times; done += 50) {
    await Promise.all(Array.from({ length: Math.min(50, times - done) }, verifyOnce));
  }
}

type Line = { events: number; numbers: number; last: number; cost: number; balance: number };

/** What the books have of a record. */
function readBooks(url: string) {
  const books = connectClickHouse(url);

  async function query<Row>(sql: string, billingId: string): Promise<Row> {
    const answer = await books.client.query({ query: sql, query_params: { billingId }, format: 'JSONEachRow' });
    return (await answer.json<Row>())[0]!;
  }

  return {
    line: (billingId: string) =>
      query<Line>(
        `select toUInt32(count()) as events, toUInt32(uniqExact(seq)) as numbers, toUInt32(max(seq)) as last,
                toFloat64(sum(cost_micros)) as cost, toFloat64(max(used_micros)) as balance
         from usage_events final where billing_id = {billingId:String}`,
        billingId,
      ),
    close: () => books.close(),
  };
}
