import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../shared/runtime/loop.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Sql } from '../../shared/stores/postgres.ts';

const EVERY_MS = 15_000;
// Counting goes no further: as many as one team may have.
const MOST_COUNTED = 100_000;

/** Keeps the gauges of what waits and of webhooks that were disabled, until stopped. */
export function watchWaiting(sql: Sql, metrics: Metrics, log: Logger, clock: Clock): Loop {
  return startLoop(clock, EVERY_MS, log, 'counting what waits for webhooks', async () => {
    const [row] = await sql<[{ waiting: number; failing: number }]>`
      select (select count(*) from (select from webhook_deliveries where state = 'WAITING' limit ${MOST_COUNTED}) known) as waiting,
             (select count(*) from (select from webhooks where failing_since is not null and enabled and deleted_at is null
                                    limit ${MOST_COUNTED}) known) as failing`;
    metrics.webhooksWaiting.set(row.waiting);
    metrics.webhooksFailing.set(row.failing);
  });
}
