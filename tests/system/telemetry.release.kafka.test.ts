// The trace of a verification goes with its record through Kafka.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, request } from '../helpers/world.ts';
import { makeKafkaWorld, type KafkaWorld } from '../helpers/kafka-world.ts';
import { startOtlpReceiver, type OtlpReceiver } from '../helpers/otlp-receiver.ts';

const test = suite('telemetry through Kafka');
const TRACE = '0af7651916cd43dd8448eb211c80319c';
let own: KafkaWorld;
let receiver: OtlpReceiver;
test.before(async () => {
  own = await makeKafkaWorld();
  receiver = await startOtlpReceiver();
});
test.after(async () => {
  await own?.stop();
  await receiver?.stop();
});

test('verify, relay, consumer and insert are one trace, and the record is the event as it always was', async () => {
  const { world } = own;
  const meter = await own.newMeter();
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_TRACES_SAMPLER: 'parentbased_always_off' };
  const programs = await Promise.all(
    (['verify', 'relay', 'consumer'] as const).map((one) => world.start(one, settings)),
  );
  await own.spend(meter, 3);
  const headers = { traceparent: `00-${TRACE}-b7ad6b7169203331-01` };
  const body = { key: meter.key, billing: { usage: '0.25', usageName: 'tokens' } };
  const { url } = programs[0]!;
  await request(`${url}/api/v1/api-key/verify`, 'post', { token: world.team.token, body, headers });
  await own.booksAreRight(meter, 4);
  const records = await own.readEvents(4);
  const names = [
    'POST /api/v1/api-key/verify',
    'verify key',
    'relay usage event',
    'consume usage event',
    'insert usage event',
  ];
  const sent = () => names.map((name) => receiver.spans().find((span) => span.name === name)!);
  // A busy program that stops gives up what it can't send at once.
  await eventually('all spans are sent', async () => sent().every(Boolean));
  await Promise.all(programs.map((one) => one.stop()));

  const chain = sent();
  assert.equal(new Set(chain.map(({ traceId }) => traceId)), new Set([TRACE]));
  assert.equal(
    chain.slice(1).map(({ parentSpanId }) => parentSpanId),
    chain.slice(0, -1).map(({ spanId }) => spanId),
  );
  assert.equal(
    chain.map(({ service }) => service.replace('keytally-', '')),
    ['verify', 'verify', 'relay', 'consumer', 'consumer'],
  );
  const traced = records.filter((record) => record.traceparent);
  assert.equal(
    traced.map(({ traceparent }) => traceparent),
    [`00-${TRACE}-${chain[2]!.spanId}-01`],
  );
  for (const { json } of records) assert.not.match(json, TRACE);
});

test.run();
