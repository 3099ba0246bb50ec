import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { storeWatermark } from '../../shared/events/watermark.ts';
import { newId } from '../../shared/values/ids.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import { atEnd } from '../../tests/helpers/at-end.ts';
import { callsOf } from '../api/tests/helpers/calls.ts';
import { eventually, makeWorld } from '../../tests/helpers/world.ts';
import type { Customer } from '../stack/demo/cast.ts';
import { writePast } from '../stack/demo/past.ts';
import { planMeters } from '../consumer/jobs/plan-meters.ts';
import { makeReceiverCertificate, startReceiver } from './helpers/receiver.ts';

// A month of the demo, by the programs themselves over TLS, to Stripe's own mock, which checks requests by Stripe's OpenAPI document.
// What else is sent, and to whom, is in meters.test.ts.

const DAYS = 30;
const COST = '0.123456';
const TODAY_MS = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const START_MS = TODAY_MS - DAYS * DAY_MS;
const certificate = makeReceiverCertificate();
setDefaultCACertificates([...getCACertificates('default'), readFileSync(certificate.certificate, 'utf8')]);
const mock = await startMock();
const world = await makeWorld();
const by = callsOf(world);

function startMock(): Promise<string> {
  const child = spawn(process.env.TEST_STRIPE_MOCK!, ['-http-addr', '127.0.0.1:0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  atEnd(async () => void child.kill());
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // Read to its end: without a reader it would end itself.
  child.stdout.on('data', (chunk) => {
    const [, at] = /Listening for HTTP at address: (\S+)/.exec(String(chunk)) ?? [];
    if (at) resolve(`http://${at}/v1/billing/meter_events`);
  });
  child.on('exit', () => reject(new Error("Stripe's mock ended")));
  return promise;
}

test('a month reaches the mock of Stripe whole, and the proof is exact', async () => {
  const { id: workspaceId } = await by.make('/api/v1/workspace', { name: 'w' });
  const receiver = await startReceiver(certificate, ({ headers, body }, response) => {
    const passed = {
      method: 'POST',
      body,
      headers: { authorization: headers.authorization!, 'content-type': headers['content-type']! },
    };
    void fetch(mock, passed).then(async (answer) => response.writeHead(answer.status).end(await answer.text()));
  });
  const allowed = { WEBHOOK_ALLOWED_TARGETS: `*=${receiver.target}` };
  const api = await world.start('api', allowed);
  const startsAt = new Date(START_MS).toISOString();
  const stripe = { workspaceId, name: 'n', startsAt, kind: 'stripe', secret: 'sk_test_123', unit: '0.01' };
  const { id } = await by.make(`${api.url}/api/v1/meter-destination`, { ...stripe, url: receiver.url });

  const customers: Customer[] = [];
  for (const externalMeterId of ['cus_1', 'cus_2', 'cus_3']) {
    const { id: billingId } = await by.make('/api/v1/customer-billing', { workspaceId, externalMeterId });
    const what = { usageNames: ['tokens', 'images'], cost: COST, callsPerDay: 60 };
    customers.push({ workspaceId, billingId, externalMeterId, customerId: 'c', keyIds: [newId('key')], ...what });
  }
  await writePast(world, customers, DAYS);
  await storeWatermark(world.sql, TODAY_MS);
  await planMeters(world, systemClock, makeLogger('test', 'silent'), new AbortController().signal);
  await world.start('webhooks', allowed);
  await eventually('all is sent', async () => {
    const found = await by.read(`/api/v1/meter-destination/${id}`);
    assert.is(found.failedEvents, 0, JSON.stringify(found));
    return found.waitingEvents === 0;
  });
  for (const month of new Set([START_MS, TODAY_MS - 1].map((ms) => new Date(ms).toISOString().slice(0, 7)))) {
    const proof = await by.read(`/api/v1/meter-destination/${id}/proof?month=${month}`);
    assert.is(proof.status, 'EXACT', JSON.stringify(proof));
  }
  const identities = receiver.got.map(({ body }) => new URLSearchParams(body).get('identifier'));
  assert.is(new Set(identities).size, identities.length, 'each was sent once');
});
