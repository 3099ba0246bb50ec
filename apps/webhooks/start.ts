import type { Clock } from '../../shared/runtime/clock.ts';
import { makeProbes } from '../../shared/http/probes.ts';
import { serveProbes, type Served } from '../../shared/http/serve.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { makeMetrics, type Metrics } from '../../shared/runtime/metrics.ts';
import type { programs } from '../../shared/runtime/programs.ts';
import { startTelemetry } from '../../shared/runtime/telemetry.ts';
import { connectPostgres, type Sql } from '../../shared/stores/postgres.ts';
import { meterKinds, type MeterKind } from '../../shared/values/meter-kinds.ts';
import { webhookSealer } from '../../shared/values/webhook-secret.ts';
import { makeCall, makeResolve } from './call.ts';
import { startDelivering } from './deliver.ts';
import { meterLags, startSendingMeters } from './send-meters.ts';
import { RETRIES_MS } from './claim.ts';
import type { ConfigOf } from '../../shared/runtime/variables.ts';
import { startLoop, type Loop } from '../../shared/runtime/loop.ts';

type WebhooksConfig = ConfigOf<typeof programs.webhooks>;

/** Starts the program. */
export async function startWebhooks(
  config: WebhooksConfig,
  log: Logger,
  clock: Clock,
  random: () => number,
): Promise<Served> {
  const metrics = makeMetrics('webhooks');
  const telemetry = await startTelemetry('webhooks', config, metrics, log);
  const sql = connectPostgres(config.DATABASE_URL);
  const { MASTER_KEY, MASTER_KEY_PREVIOUS, WEBHOOK_ALLOWED_TARGETS, WEBHOOK_RETRY_SECONDS } = config;
  const sealer = webhookSealer(MASTER_KEY_PREVIOUS ? [MASTER_KEY, MASTER_KEY_PREVIOUS] : [MASTER_KEY]);
  const retriesMs = WEBHOOK_RETRY_SECONDS?.map((seconds) => seconds * 1000) ?? RETRIES_MS;
  const call = makeCall(makeResolve(), WEBHOOK_ALLOWED_TARGETS, clock);
  const delivering = await startDelivering({ sql, call, sealer, retriesMs, metrics, log, clock, random });
  const sending = await startSendingMeters({ sql, call, sealer, metrics, log, clock, random });
  const watching = watchWaiting(sql, metrics, log, clock);
  const server = await serveProbes(makeProbes(metrics, clock, { postgres: () => sql`select 1` }), config, log);

  return {
    ...server,
    async stop() {
      await Promise.all([delivering.stop(), sending.stop(), watching.stop()]);
      await server.stop();
      await sql.end({ timeout: 5 });
      await telemetry.stop();
    },
  };
}

const EVERY_MS = 15_000;
// Counting goes no further: as many as one team may have.
const MOST_COUNTED = 100_000;

/** Keeps the gauges of what waits and of webhooks that were disabled, until stopped. */
function watchWaiting(sql: Sql, metrics: Metrics, log: Logger, clock: Clock): Loop {
  return startLoop(clock, EVERY_MS, log, 'counting what waits for webhooks', async () => {
    const [row] = await sql<[{ waiting: number; failing: number }]>`
      select (select count(*) from (select from webhook_deliveries where state = 'WAITING' limit ${MOST_COUNTED}) known) as waiting,
             (select count(*) from (select from webhooks where failing_since is not null and enabled and deleted_at is null
                                    limit ${MOST_COUNTED}) known) as failing`;
    metrics.webhooksWaiting.set(row.waiting);
    metrics.webhooksFailing.set(row.failing);
    const lags = await meterLags(sql);
    for (const kind of Object.keys(meterKinds) as MeterKind[])
      metrics.meterLagSeconds.set({ kind }, lags.find((one) => one.kind === kind)?.seconds ?? 0);
  });
}
