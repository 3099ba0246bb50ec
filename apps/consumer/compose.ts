import type { Clock } from '../../shared/runtime/clock.ts';
import type { programs } from '../../shared/runtime/programs.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Kafka } from '../../shared/events/kafka.ts';
import { trackWatermark } from '../../shared/events/watermark.ts';
import { makeOutboxReader } from '../../shared/events/outbox-reader.ts';
import { startPerNode } from '../../shared/events/start-per-node.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { startConsuming, type DeliverOptions } from './consume.ts';
import { makeOpenAddresses } from './client-addresses.ts';
import { makeFillCustomers } from './fill-customers.ts';
import { makeFollowUps } from './follow-ups.ts';
import { raiseBookedTo } from '../../shared/events/log-place.ts';
import { startRebuilder } from '../../shared/books/rebuilding/rebuilder.ts';
import { makeMarkChangedDays } from './changed-days.ts';
import { startLookingAtCredits } from './look-at-credits.ts';
import { makeNotifyLimits } from './notify-limits.ts';
import { startNotifyingMoments } from './notify-moments.ts';
import { watchProofs } from './watch-proofs.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import type { ConfigOf } from '../../shared/runtime/variables.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Telemetry } from '../../shared/runtime/telemetry.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';

export type ConsumerConfig = ConfigOf<typeof programs.consumer>;
type Stores = { sql: Sql; redis: ShardedRedis; books: Books; kafka?: Kafka | undefined };
type Runtime = { metrics: Metrics; telemetry: Telemetry; log: Logger; clock: Clock };

/** What the program does with events from wherever they come, and what runs beside it. */
export function composeConsumer(
  { sql, redis, books, kafka }: Stores,
  config: Pick<ConsumerConfig, 'BUS' | 'CONSUMER_NAME'>,
  { metrics, telemetry, log, clock }: Runtime,
): { delivering: DeliverOptions; running: Running[] } {
  const rebuilder = startRebuilder({ sql, redis, books, metrics, log });
  const lookingAtCredits = startLookingAtCredits(sql, redis, log);
  const delivering = {
    books,
    fillCustomers: makeFillCustomers(sql, clock),
    markChangedDays: makeMarkChangedDays(sql, clock),
    raiseBookedTo: (events: CarriedEvent[]) => raiseBookedTo(sql, events),
    followUps: makeFollowUps({ sql, redis, rebuildSoon: rebuilder.soon, lookSoon: lookingAtCredits.soon }),
    notifyLimits: makeNotifyLimits(sql, clock),
    openAddresses: makeOpenAddresses(sql, redis),
    now: redis.now,
    metrics,
    log,
    telemetry,
    clock,
  };
  const running: Running[] = [
    rebuilder,
    lookingAtCredits,
    startNotifyingMoments(sql, log, clock),
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
