import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { makeCustomers } from '../../../tests/helpers/customers.ts';
import { eventually, spawnWorld, request } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// What strangers may ask a server for beside the hot path, and on which port it is.
const BUNDLE = '/docs/swagger-ui-bundle.js';
const world = await spawnWorld(['verify']);
const { body } = await world.call('post', '/api/v1/workspace', { name: 'beside' });
const customers = makeCustomers(world, body.workspace.id);

test('with OPS_PORT, clients of the hot port reach /healthz alone of the probes, and OPS_PORT serves nothing else', async () => {
  for (const program of ['api', 'verify'] as const) {
    const [ops = 0] = await freePorts(1);
    const server = await world.start(program, { OPS_PORT: String(ops) });
    const url = `http://127.0.0.1:${ops}`;
    const ready = async () => (await fetch(`${url}/readyz`)).status === 200;
    await eventually('it is ready', ready);
    const hidden = ['/metrics', '/readyz', '/servingz'];
    const status = async (path: string) => (await request(server.url + path, 'get', {})).status;
    assert.equal(await Promise.all(hidden.map(status)), [404, 404, 404], program);
    assert.is(await status('/healthz'), 200);
    const docs = await Promise.all(['/docs', BUNDLE, '/openapi.json'].map((path) => fetch(server.url + path)));
    const expected = program === 'api' ? 200 : 404;
    assert.equal(
      docs.map((answer) => answer.status),
      [expected, expected, expected],
      program,
    );
    assert.match(await (await fetch(`${url}/metrics`)).text(), new RegExp(`program="${program}"`));
    assert.is((await fetch(`${url}/healthz`)).status, 200);
    for (const path of ['/docs', '/openapi.json', VERIFY_PATH, '/api/v1/workspace']) {
      assert.is((await fetch(url + path)).status, 404, path);
    }
    assert.is((await fetch(url + VERIFY_PATH, { method: 'POST' })).status, 404);
    await server.stop();
  }
});

test('with OPS_PORT and several workers one scrape has the sum of all of them', async () => {
  const [port = 0, ops = 0] = await freePorts(2);
  const settings = { WORKERS: '2', PORT: String(port), OPS_PORT: String(ops) };
  const server = await world.start('verify', settings);
  const total = async () => {
    const answer = await fetch(`http://127.0.0.1:${ops}/metrics`, { headers: { Connection: 'close' } });
    return Number(/^keytally_verifications_total\{[^}]*status="VALID"[^}]*\} (\d+)$/m.exec(await answer.text())?.[1]);
  };
  const { key } = await customers.newKey();
  await Promise.all(Array.from({ length: 50 }, () => customers.verify({ key }, { url: server.url })));
  await eventually('all are counted', async () => (await total()) === 50);
  for (let i = 0; i < 5; i++) assert.is(await total(), 50);
  await server.stop();
});
