import { makeProbes } from '../../shared/http/probes.ts';
import { serveProbes, type Served } from '../../shared/http/serve.ts';
import type { programs } from '../../shared/runtime/programs.ts';
import type { Runtime, Whole } from '../../shared/runtime/run.ts';
import { connectPostgres, type Sql } from '../../shared/stores/postgres.ts';
import { meterKinds, type MeterKind } from '../../shared/values/meter-kinds.ts';
import { webhookSealer } from '../../shared/values/webhook-secret.ts';
import { makeCall, makeResolve } from './call.ts';
import { startDelivering } from './deliver.ts';
import { meterLags, startSendingMeters } from './send-meters.ts';
import { countWaiting, RETRIES_MS } from './claim.ts';
import type { ConfigOf } from '../../shared/runtime/variables.ts';
import { startLoop, type Loop } from '../../shared/runtime/loop.ts';

type WebhooksConfig = ConfigOf<typeof programs.webhooks>;

/** Starts the program. */
export async function startWebhooks(config: WebhooksConfig, whole: Whole): Promise<Served> {
  const { metrics, log, clock } = whole;
  const sql = connectPostgres(config.DATABASE_URL);
  const { MASTER_KEY, MASTER_KEY_PREVIOUS, WEBHOOK_ALLOWED_TARGETS, WEBHOOK_RETRY_SECONDS } = config;
  const sealer = webhookSealer(MASTER_KEY_PREVIOUS ? [MASTER_KEY, MASTER_KEY_PREVIOUS] : [MASTER_KEY]);
  const retriesMs = WEBHOOK_RETRY_SECONDS?.map((seconds) => seconds * 1000) ?? RETRIES_MS;
  const call = makeCall(makeResolve(), WEBHOOK_ALLOWED_TARGETS, clock);
  const delivering = await startDelivering({ ...whole, sql, call, sealer, retriesMs });
  const sending = await startSendingMeters({ ...whole, sql, call, sealer });
  const watching = watchWaiting(sql, whole);
  const server = await serveProbes(makeProbes(metrics, clock, { postgres: () => sql`select 1` }), config, log);

  return {
    ...server,
    async stop() {
      await Promise.all([delivering.stop(), sending.stop(), watching.stop()]);
      await server.stop();
      await sql.end({ timeout: 5 });
    },
  };
}

const EVERY_MS = 15_000;

/** Keeps the gauges of what waits and of webhooks that were disabled, until stopped. */
function watchWaiting(sql: Sql, { metrics, log, clock }: Runtime): Loop {
  return startLoop(clock, EVERY_MS, log, 'counting what waits for webhooks', async () => {
    const { waiting, failing, dueSeconds } = await countWaiting(sql);
    metrics.webhooksWaiting.set(waiting);
    metrics.webhooksFailing.set(failing);
    metrics.webhookDueSeconds.set(dueSeconds);
    const lags = await meterLags(sql);
    for (const kind of Object.keys(meterKinds) as MeterKind[])
      metrics.meterLagSeconds.set({ kind }, lags.find((one) => one.kind === kind)?.seconds ?? 0);
  });
}
