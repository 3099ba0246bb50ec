// What a program keeps for a collector, and what it says of itself.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../../tests/helpers/eventually.ts';
import { startOtlpReceiver } from '../../../tests/helpers/otlp-receiver.ts';
import { makeLogger } from '../log.ts';
import { makeMetrics } from '../metrics.ts';
import { spans } from '../telemetry.ts';
import { startOpenTelemetry } from './start.ts';

const config = {
  OTEL_EXPORTER_OTLP_ENDPOINT: undefined,
  OTEL_EXPORTER_OTLP_HEADERS: '',
  OTEL_SERVICE_NAME: '',
  OTEL_RESOURCE_ATTRIBUTES: '',
  OTEL_TRACES_EXPORTER: 'otlp',
  OTEL_TRACES_SAMPLER: 'always_on',
  OTEL_TRACES_SAMPLER_ARG: 1,
  OTEL_METRICS_EXPORTER: 'none',
  OTEL_METRIC_EXPORT_INTERVAL: 60_000,
} as const;
const asked = { method: 'GET', route: '/', traceparent: undefined };

function start(url: string, more: Partial<Record<keyof typeof config, unknown>> = {}) {
  const { registry } = makeMetrics('test');
  const log = makeLogger('test', 'silent');
  return startOpenTelemetry('test', url, { config: { ...config, ...more } as typeof config, registry, log });
}

test('work whose result can not be told is done all the same', async () => {
  const receiver = await startOtlpReceiver();
  const telemetry = start(receiver.url);
  const untellable = () => {
    throw new Error('untellable');
  };
  const part = telemetry.part(spans.verify, () => Promise.resolve('done'), untellable);
  assert.is(await telemetry.request(asked, part), 'done');
  await telemetry.stop();
  await eventually('its span says so', async () =>
    receiver.spans().some(({ told }) => told['error.type'] === 'untold'),
  );
});

test('work that fails fails as before, and its span tells the name of the error and no more', async () => {
  const receiver = await startOtlpReceiver();
  const telemetry = start(receiver.url);
  const error = Object.assign(new TypeError('with kt_secret'), { status: 503, errorName: 'undecided' });
  const part = telemetry.part(spans.script, () => Promise.reject(error));
  const batch = telemetry.batch(spans.insert, () => Promise.reject(error));
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  for (const work of [part, () => batch([{ trace }])]) {
    const failed = await telemetry.request(asked, work).catch((one: unknown) => one);
    assert.is(failed, error);
  }
  await telemetry.stop();
  const failed = () => receiver.spans().filter(({ told }) => told['error.type'] === 'undecided');
  await eventually('all have come', async () => failed().length >= 4);
  for (const { status } of failed()) assert.is(status.code, 2);
  assert.not.ok(receiver.requests.some(({ text }) => text.includes('kt_secret')));
});
