import { suite } from 'uvu';
import { signalBroker } from '../helpers/kafka-world.ts';
import { metric } from '../helpers/metric.ts';
import { makeRebuildWorld, type RebuildWorld } from '../helpers/rebuild-world.ts';
import { eventually, wireTo } from '../helpers/world.ts';

// Kafka and the programs around it hold events while their Redis is lost, and lost again while it is being filled.

const test = suite('balances of a Redis that was lost, with Kafka');
let own: RebuildWorld;

test.before(async () => {
  own = await makeRebuildWorld('rebuild-kafka', { BUS: 'kafka', KAFKA_TOPIC_PARTITIONS: '4' });
});
test.after(() => own?.stop());

const losses = {
  'is emptied': async () => void (await own.redis.admin.flushall()),
  'comes back behind': () => own.redis.comeBackAs('kept'),
};
for (const [how, lose] of Object.entries(losses)) {
  test(`events of a Redis that ${how}, twice, are in the balance once consumer, Kafka and relay deliver them`, async () => {
    const wire = await wireTo(own.world.env.CLICKHOUSE_URL!);
    const relay = await own.world.start('relay');
    const consumer = await own.world.start('consumer', { CLICKHOUSE_URL: wire.url });
    const one = await own.customers.meteredKey('1000');
    await own.spend(one, '1');
    await own.adjust(one, '10');
    await eventually('it is booked', async () => (await own.customers.usage(one.meter)) === '11');
    await own.redis.keep('kept');
    await own.untilValid(one);
    const inHand = async ({ url }: { url: string }) => metric(url, 'keytally_events_in_hand');
    await eventually(
      'nothing waits',
      async () => (await own.waiting()) + (await inHand(relay)) + (await inHand(consumer)) === 0,
    );

    await wire.cut();
    await own.spend(one, '2');
    await own.adjust(one, '-0.5');
    await eventually('Kafka has it', async () => (await own.waiting()) === 0);
    signalBroker('SIGSTOP');
    try {
      await own.spend(one, '4');
      await own.adjust(one, '0.25');
      await eventually('the relay has it', async () => (await inHand(relay)) === 2);
      await lose();
      await own.untilBuilt();
      await lose();
      await own.untilValid(one);
      await own.spend(one, '8');
      // Postgres has the adjustments, so applying them again needs no books.
      await eventually('they are applied again', async () => (await own.used(one)) === '18.75');
    } finally {
      signalBroker('SIGCONT');
    }
    await wire.mend();
    await eventually('late events are in the balance', async () => (await own.used(one)) === '24.75');
    await eventually('all is booked', async () => (await own.customers.usage(one.meter)) === '24.75');
    await own.isExact(one);
    await Promise.all([relay.stop(), consumer.stop(), wire.cut()]);
  });
}

test.run();
