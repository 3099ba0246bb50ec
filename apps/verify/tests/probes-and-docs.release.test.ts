import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { eventually, makeCustomers, request, type Spawned, spawnWorld } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// What strangers may ask a server for beside the hot path, and on which port it is; and a server of several processes.
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
    for (const { status } of docs) assert.is(status, expected, program);
    assert.match(await (await fetch(`${url}/metrics`)).text(), new RegExp(`program="${program}"`));
    assert.is((await fetch(`${url}/healthz`)).status, 200);
    for (const path of ['/docs', '/openapi.json', VERIFY_PATH, '/api/v1/workspace'])
      assert.is((await fetch(url + path)).status, 404, path);
    assert.is((await fetch(url + VERIFY_PATH, { method: 'POST' })).status, 404);
    await server.stop();
  }
});

test('with several workers one scrape has the sum of all, a killed one is replaced while the other goes on, and each call is debited once', async () => {
  const [port = 0, ops = 0] = await freePorts(2);
  const server = await world.start('verify', { WORKERS: '2', PORT: String(port), OPS_PORT: String(ops) });
  const total = async () => {
    const answer = await fetch(`http://127.0.0.1:${ops}/metrics`, { headers: { Connection: 'close' } });
    return Number(/^keytally_verifications_total\{[^}]*status="VALID"[^}]*\} (\d+)$/m.exec(await answer.text())?.[1]);
  };
  const { key, meter } = await customers.meteredKey('1000');
  const verify = () => customers.verify({ key, billing: { usage: '1' } }, { url: server.url });
  await Promise.all(Array.from({ length: 50 }, verify));
  await eventually('all are counted', async () => (await total()) === 50);
  for (let i = 0; i < 5; i++) assert.is(await total(), 50);

  const pids = workersOf(server);
  assert.is(pids.length, 2);
  process.kill(pids[0]!, 'SIGKILL');
  let decided = 50;
  for (let i = 0; i < 200; i++) {
    // The killed worker's connections are cut; a call on one of them may have been debited.
    const answer = await verify().catch(() => undefined);
    if (answer?.body.status === 'VALID') decided++;
  }
  const used = Number((await customers.billing(meter)).usedCredits);
  assert.ok(used >= decided && used <= 250, `${used} used, ${decided} decided`);
  assert.ok(decided >= 240, `${decided} of 250 were decided`);
  await eventually('there are two again', async () => workersOf(server).filter((pid) => pid !== pids[0]).length === 2);
  await server.stop();
});

function workersOf({ process: { pid } }: Spawned): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return children.split(' ').filter(Boolean).map(Number);
}
