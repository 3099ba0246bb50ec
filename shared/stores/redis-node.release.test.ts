import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { succeeds } from '../runtime/succeeds.ts';
import { systemClock } from '../runtime/clock.ts';
import { makeOwnRedis } from '../../tests/helpers/own-redis.ts';
import { eventually, wireTo } from '../../tests/helpers/world.ts';
import { makeLogger } from '../runtime/log.ts';
import { connectNode } from './redis-node.ts';
import { SILENT_FOR_MS } from './silence-watch.ts';

test('that falls silent is ended, and a next one made; not one whose answer waits for this process', async () => {
  const wire = await wireTo(process.env.TEST_REDIS_URL!);
  const node = connectNode(wire.url, makeLogger('test', 'fatal'), systemClock);
  const answers = () => succeeds(node.client.ping());
  await node.connected(60_000);
  try {
    wire.silence();
    assert.is(await answers(), false);
    await eventually('there is a next one', answers);
  } finally {
    node.client.disconnect();
    await wire.cut();
  }

  // On no wire: that stalls with this process.
  const direct = connectNode(process.env.TEST_REDIS_URL!, makeLogger('test', 'fatal'), systemClock);
  await direct.connected(60_000);
  try {
    const answered = direct.client.ping();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1.5 * SILENT_FOR_MS);
    assert.is(await answered, 'PONG');
  } finally {
    direct.client.disconnect();
  }
});

test('that is waited for may be refused before there is a server', async () => {
  const own = await makeOwnRedis('late');
  await own.end();
  const node = connectNode(own.url, makeLogger('test', 'silent'), systemClock);
  try {
    const refused = new Promise((resolve) => node.client.once('error', resolve));
    await Promise.all([node.connected(60_000), refused.then(() => own.start())]);
    assert.ok(node.runId());
    assert.is(node.client.listenerCount('known'), 0);
  } finally {
    node.client.disconnect();
    await own.remove();
  }
});
