import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { makeCustomers } from '../helpers/customers.ts';
import { eventually, spawnWorld } from '../helpers/world.ts';

const world = await spawnWorld(['verify']);
const [port] = await freePorts(1);
const verify = await world.start('verify', { WORKERS: '2', PORT: String(port) });
const { body } = await world.call('post', '/api/v1/workspace', { name: 'workers' });
const customers = makeCustomers(world, body.workspace.id);

test('a killed worker is replaced while the other goes on, and each call is debited once', async () => {
  const { key, meter } = await customers.meteredKey('1000');
  const pids = workers();
  assert.is(pids.length, 2);
  let decided = 0;
  let cut = 0;
  for (let i = 0; i < 300; i++) {
    if (i === 100) process.kill(pids[0]!, 'SIGKILL');
    // The killed worker's connections are cut; a call on one of them may have been debited.
    const answer = await customers.verify({ key, billing: { usage: '1' } }, { url: verify.url }).catch(() => undefined);
    if (answer?.body.status === 'VALID') decided++;
    else cut++;
  }
  const used = Number((await customers.billing(meter)).usedCredits);
  assert.ok(used >= decided && used <= decided + cut, `${used} used, ${decided} decided, ${cut} cut`);
  assert.ok(decided >= 290, `${decided} of 300 were decided`);
  await eventually('there are two again', async () => workers().length === 2 && !workers().includes(pids[0]!));
});

function workers(): number[] {
  const { pid } = verify.process;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return children.split(' ').filter(Boolean).map(Number);
}
