import '../../shared/runtime/require-node.ts';
import { makeProbes } from '../../shared/http/probes.ts';
import { serveProbes } from '../../shared/http/serve.ts';
import { readConfigOrExit } from '../../shared/runtime/config.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { run } from '../../shared/runtime/run.ts';
import { startTelemetry } from '../../shared/runtime/telemetry.ts';
import { connectPostgres, isPostgresConnectionError } from '../../shared/stores/postgres.ts';
import { webhookSealer } from '../../shared/values/webhook-secret.ts';
import { makeCall } from './call.ts';
import { startDelivering } from './deliver.ts';
import { makeResolve } from './resolve.ts';
import { RETRIES_MS } from './retries.ts';
import { watchWaiting } from './watch-waiting.ts';

const config = readConfigOrExit(...programs.webhooks);
const log = makeLogger('webhooks', config.LOG_LEVEL);

await run({ log, isHarmless: isPostgresConnectionError }, async () => {
  const metrics = makeMetrics('webhooks');
  const telemetry = await startTelemetry('webhooks', config, metrics, log);
  const sql = connectPostgres(config.DATABASE_URL);
  const { MASTER_KEY, MASTER_KEY_PREVIOUS, WEBHOOK_ALLOWED_TARGETS, WEBHOOK_RETRY_SECONDS } = config;
  const sealer = webhookSealer(MASTER_KEY_PREVIOUS ? [MASTER_KEY, MASTER_KEY_PREVIOUS] : [MASTER_KEY]);
  const retriesMs = WEBHOOK_RETRY_SECONDS?.map((seconds) => seconds * 1000) ?? RETRIES_MS;
  const call = makeCall(makeResolve(), WEBHOOK_ALLOWED_TARGETS);
  const delivering = await startDelivering({ sql, call, sealer, retriesMs, metrics, log });
  const watching = watchWaiting(sql, metrics, log);
  const server = await serveProbes(makeProbes(metrics, { postgres: () => sql`select 1` }), config, log);

  return {
    async stop() {
      await Promise.all([delivering.stop(), watching.stop()]);
      await server.stop();
      await sql.end({ timeout: 5 });
      await telemetry.stop();
    },
  };
});
