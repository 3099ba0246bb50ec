// What telemetry costs where nobody asked for it.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, outputListeners, type World } from '../helpers/world.ts';

const test = suite('telemetry off');
const preload = `--import=${new URL('../helpers/tell-loaded.mjs', import.meta.url).pathname}`;
let world: World;
test.before(async () => void (world = await makeWorld()));
test.after(() => world?.stop());

// The client of Prometheus loads @opentelemetry/api, with or without telemetry.
test('a program that is not told of a collector loads nothing of OpenTelemetry that it would not load anyway', async () => {
  let said = '';
  outputListeners.add((text) => void (said += text));
  for (const program of ['api', 'verify', 'consumer', 'webhooks'] as const)
    await (await world.start(program, { NODE_OPTIONS: preload })).stop();
  assert.match(said, /loaded file:\S+@opentelemetry\/api\//);
  assert.not.match(said, /loaded file:\S+@opentelemetry\/(?!api\/)/);
  const traced = await world.start('verify', {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    NODE_OPTIONS: preload,
  });
  await traced.stop();
  assert.match(said, /loaded file:\S+@opentelemetry\/sdk-trace/);
});

test.run();
