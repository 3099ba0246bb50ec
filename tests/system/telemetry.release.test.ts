// What programs send to a collector of OpenTelemetry, and that it changes nothing of what they do.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startOtlpReceiver, type ReceivedSpan } from '../helpers/otlp-receiver.ts';
import type { Program } from '../helpers/start-program.ts';
import { eventually, makeCustomers, type Spawned, spawnWorld } from '../helpers/world.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CALLER = 'b7ad6b7169203331';
const sampled = { traceparent: `00-${TRACE}-${CALLER}-01` };
const started: Spawned[] = [];

const receiver = await startOtlpReceiver();
const world = await spawnWorld();
const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'traced' })).body;
const customers = makeCustomers(world, workspace.id);
const settings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
  OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-token=of%20ours',
  OTEL_TRACES_SAMPLER: 'parentbased_always_off',
  OTEL_METRIC_EXPORT_INTERVAL: '200',
};
test.after.each(async () => void (await Promise.all(started.splice(0).map((one) => one.stop()))));

test('a traced verification is one trace, from the caller to the insert, and batches link to it', async () => {
  const [verify, consumer] = await Promise.all([start('verify', settings), start('consumer', settings)]);
  const { key, id, meter } = await customers.meteredKey('10');
  const call = { key, billing: { usage: '1' } };
  for (const headers of [sampled, {}]) {
    const answer = await customers.verify(call, { url: verify.url, headers });
    assert.is(answer.body.status, 'VALID', answer.text);
  }
  await eventually('both are in the books', async () => (await customers.usage(meter)) === '2');
  const chain = ['POST /api/v1/api-key/verify', 'verify key', 'consume usage event', 'insert usage event'];
  await untilSent([...chain, 'verify.lua', 'consume usage events', 'insert usage events']);
  await Promise.all([verify.stop(), consumer.stop()]);

  const spans = receiver.spans();
  const trace = spans.filter(({ traceId }) => traceId === TRACE);
  assert.equal(trace.map(({ name }) => name).toSorted(), [...chain, 'verify.lua'].toSorted());
  const of = (name: string): ReceivedSpan => spans.find((span) => span.name === name)!;
  const found = chain.map((name) => of(name).parentSpanId);
  assert.equal(found, [CALLER, ...chain.slice(0, -1).map((name) => of(name).spanId)]);
  assert.is(of('verify.lua').parentSpanId, of('verify key').spanId);
  assert.equal([of(chain[0]!).service, of(chain[3]!).service], ['keytally-verify', 'keytally-consumer']);
  assert.is(of(chain[0]!).told['http.response.status_code'], 200);
  assert.equal([of('verify key').told['keytally.status'], of('verify key').told['keytally.key.id']], ['VALID', id]);

  const [consumed, inserted] = [of('consume usage events'), of('insert usage events')];
  assert.is(inserted.parentSpanId, consumed.spanId);
  assert.is.not(consumed.traceId, TRACE);
  const linked = (span: ReceivedSpan) => span.links?.map(({ traceId, spanId }) => [traceId, spanId]);
  assert.equal(linked(consumed), [[TRACE, of('verify key').spanId]]);
  assert.equal(linked(of('consume usage event')), [[consumed.traceId, consumed.spanId]]);
  assert.is(spans.length, trace.length + 2, 'the other call left nothing');
  assert.is(receiver.requests[0]!.headers['x-collector-token'], 'of ours');
});

test('a stranger begins no trace, whatever it asks for', async () => {
  const verify = await start('verify', settings);
  const from = receiver.spans().length;
  const headers = { traceparent: sampled.traceparent.replace('0af', '1af') };
  const answer = await customers.verify({ key: 'nothing' }, { url: verify.url, token: 'kt_nobody', headers });
  assert.is(answer.status, 401);
  await verify.stop();
  assert.equal(receiver.spans().slice(from), []);
});

/** Waits for spans with these names. A busy program that stops gives up what it can't send at once. */
async function untilSent(names: string[]): Promise<void> {
  const isSent = (wanted: string) => receiver.spans().some(({ name }) => name === wanted);
  await eventually(`${names.join()} are sent`, async () => names.every(isSent));
}

async function start(program: Program, env: Record<string, string>): Promise<Spawned> {
  const one = await world.start(program, env);
  started.push(one);
  return one;
}
