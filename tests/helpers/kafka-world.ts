import { Kafka as Client, logLevel } from 'kafkajs';
import * as assert from 'uvu/assert';
import { readConfig } from '../../shared/runtime/config.ts';
import { groups } from '../../shared/runtime/variables.ts';
import { connectKafka } from '../../shared/events/kafka.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { atEnd } from './at-end.ts';
import { makeCustomers, must, newWorkspace, totalOf } from './customers.ts';
import { eventually, spawnWorld, once } from './world.ts';

/** A metered key, and the record that it draws on. */
export type Meter = { billingId: string; key: string };

/** A test file's own world with Kafka between the outbox and the books, and a look at all of them from outside. */
export async function makeKafkaWorld() {
  const world = await spawnWorld(['verify'], { BUS: 'kafka', KAFKA_TOPIC_PARTITIONS: '4' });
  const brokers = [world.env.KAFKA_BROKERS!];
  const settings = { KAFKA_TOPIC_PREFIX: world.env.KAFKA_TOPIC_PREFIX!, KAFKA_TOPIC_PARTITIONS: 4 };
  const config = { ...readConfig(groups.kafka), KAFKA_BROKERS: brokers, ...settings };
  const kafka = connectKafka(config, 'test', makeLogger('test', 'silent'));
  const client = new Client({ clientId: 'outside', brokers, logLevel: logLevel.NOTHING });
  const admin = client.admin();
  await Promise.all([kafka.ensureTopics(), admin.connect()]);
  atEnd(() => Promise.all([kafka.close(), admin.disconnect()]));
  const customers = makeCustomers(world, await newWorkspace(world));
  const group = `${settings.KAFKA_TOPIC_PREFIX}.books`;
  // A broker that has just started, or a group that is settling, may refuse to answer.
  const progress = () => eventually('how far the group is', () => kafka.progress().catch(() => undefined));

  /** What the books have of a record. */
  async function booked(billingId: string) {
    const query = `
      select toUInt32(count()) as events, toUInt32(uniqExact(seq)) as numbers, toUInt32(max(seq)) as last,
             toFloat64(sum(cost_micros)) as cost, toFloat64(max(used_micros)) as balance
      from usage_events final where billing_id = {billingId:String}`;
    const answer = await world.books.client.query({ query, query_params: { billingId }, format: 'JSONEachRow' });
    return (await answer.json<{ events: number }>())[0]!;
  }

  return {
    world,
    kafka,
    client,
    /** Makes a record with many credits, and a key that draws on it. */
    async newMeter(): Promise<Meter> {
      const { key, meter } = await customers.meteredKey('1000000');
      return { billingId: (await customers.billing(meter)).id, key };
    },
    /** Verifies a key so many times at 0.25 credits each; every call must be VALID. */
    async spend({ key }: Meter, times: number): Promise<void> {
      const body = { key, route: '/r', billing: { usage: '0.25', usageName: 'tokens' } };
      const verifyOnce = async () => {
        const answer = await must(200, customers.verify(body, { headers: once() }));
        assert.is(answer.body.status, 'VALID', answer.text);
      };
      for (let done = 0; done < times; done += 50)
        await Promise.all(Array.from({ length: Math.min(50, times - done) }, verifyOnce));
    },
    /** Waits until all that was spent is in the books, and proves them: nothing is missing, nothing counts twice. */
    async booksAreRight({ billingId }: Meter, events: number): Promise<void> {
      await eventually(`${events} events are in the books`, async () => (await booked(billingId)).events >= events);
      const wanted = { events, numbers: events, last: events, cost: events * 250_000, balance: events * 250_000 };
      assert.equal(await booked(billingId), wanted);
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
