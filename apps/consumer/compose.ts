import type { programs } from '../../shared/runtime/programs.ts';
import type { Kafka } from '../../shared/events/kafka.ts';
import { trackWatermark } from '../../shared/events/watermark.ts';
import { makeOutboxReader } from '../../shared/events/outbox-reader.ts';
import { startPerNode } from '../../shared/events/start-per-node.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { startConsuming, type DeliverOptions } from './consume.ts';
import { startRebuilder } from '../../shared/books/rebuilding/rebuilder.ts';
import { startLookingAtCredits } from './look-at-credits.ts';
import { startNotifyingMoments } from './notify-moments.ts';
import { wakeWhenDue } from '../../shared/stores/due-loops.ts';
import { watchProofs } from './watch-proofs.ts';
import type { ConfigOf } from '../../shared/runtime/variables.ts';

export type ConsumerConfig = ConfigOf<typeof programs.consumer>;
type Parts = Omit<DeliverOptions, 'now'> & { kafka: Kafka | undefined };

/** What the program does with events from wherever they come, and what runs beside it. */
export function composeConsumer(
  { kafka, ...parts }: Parts,
  config: Pick<ConsumerConfig, 'BUS' | 'CONSUMER_NAME'>,
): { delivering: DeliverOptions; running: Running[] } {
  const { sql, redis, books, metrics, log, clock } = parts;
  const rebuilder = startRebuilder({ sql, redis, books, metrics, log });
  const lookingAtCredits = startLookingAtCredits(sql, redis, log);
  const delivering = { ...parts, now: redis.now, rebuildSoon: rebuilder.soon, lookSoon: lookingAtCredits.soon };
  const running: Running[] = [
    wakeWhenDue(sql, parts, [rebuilder, lookingAtCredits, startNotifyingMoments(sql, parts)]),
    watchProofs(sql, metrics, log, clock),
    trackWatermark({ sql, redis, kafka, log }),
  ];
  if (config.BUS === 'redis') {
    const name = config.CONSUMER_NAME;
    const consumingNodes = startPerNode(redis, log, (node, shards) =>
      startConsuming({
        ...delivering,
        source: makeOutboxReader({ node, shards, name, metrics, log }),
        now: node.now,
      }),
    );
    running.push(consumingNodes);
  }
  return { delivering, running };
}
