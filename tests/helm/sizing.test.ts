// docs/sizing.md computes with the figures of docs/performance.md, and the example for 1,000,000 a second takes its numbers.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { checkout } from '../../apps/stack/process/home.ts';

const page = read('docs/sizing.md');
const rows = [...page.matchAll(/^\| +([\d,]+) \|(.+)\|$/gm)].map(([, rate = '', others = '']) => ({
  rate: Number(rate.replaceAll(',', '')),
  others: others.split('|').map(Number),
}));

test('the numbers of pods and primaries follow from what a verification costs', () => {
  const single = costs('one call a request');
  const batched = costs('batches of 32');
  const carried = Number(/([\d,]+) through Kafka/.exec(read('docs/performance.md'))![1]!.replaceAll(',', ''));
  assert.equal(
    rows.map(({ rate }) => rate),
    [1_000, 10_000, 100_000, 1_000_000],
  );
  for (const { rate, others } of rows) {
    const pods = (micros: number) => Math.ceil((rate * micros) / 1e6 / 0.6) + 1;
    const consumers = pods(single.consumer);
    assert.equal(
      others,
      [
        pods(single.verify),
        pods(batched.verify),
        Math.ceil((rate * single.redis) / 1e6 / 0.5),
        Math.ceil(rate / carried / 0.6) + 1,
        consumers,
        Math.max(12, Math.ceil(consumers / 12) * 12),
        Math.ceil((rate * single.clickhouse) / 1e6 / 0.6),
      ],
      `${rate} a second`,
    );
  }
  for (const figure of [single.verify, batched.verify, single.redis, single.consumer, single.clickhouse])
    assert.ok(page.includes(`${figure} µs`), `the page says ${figure} µs`);
});

test('the large example has the numbers of its row', () => {
  const values = parse(read('deploy/helm/examples/large.yaml')) as {
    verify: { autoscaling: { minReplicas: number; maxReplicas: number } };
    relay: { replicas: number };
    consumer: { replicas: number };
    servers: { kafka: { config: { KAFKA_TOPIC_PARTITIONS: number } } };
  };
  const [verify = 0, , , relays, consumers, partitions] = rows.at(-1)!.others;
  const { minReplicas, maxReplicas } = values.verify.autoscaling;
  assert.ok(minReplicas >= verify / 2 && maxReplicas >= verify * 1.4, `${verify} pods of verify`);
  assert.equal(
    [values.relay.replicas, values.consumer.replicas, values.servers.kafka.config.KAFKA_TOPIC_PARTITIONS],
    [relays, consumers, partitions],
  );
});

test.run();

/** µs of CPU that a row of the table on costs gives each process. */
function costs(row: string): { verify: number; redis: number; consumer: number; clickhouse: number } {
  const cells = new RegExp(`^\\| ${row} +\\|(.+)\\|$`, 'm').exec(read('docs/performance.md'))![1]!.split('|');
  const [, verify, redis, consumer, clickhouse] = cells.map((cell) => parseFloat(cell.replaceAll('*', '')));
  return { verify: verify!, redis: redis!, consumer: consumer!, clickhouse: clickhouse! };
}

function read(path: string): string {
  return readFileSync(join(checkout, path), 'utf8');
}
