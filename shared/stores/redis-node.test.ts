import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, wireTo } from '../../tests/helpers/world.ts';
import { makeLogger } from '../runtime/log.ts';
import { connectNode, SILENT_FOR_MS } from './redis-node.ts';

const test = suite('a connection to a Redis server');

test('that falls silent is ended, and the next one outlives the time at which that would have been', async () => {
  const wire = await wireTo(process.env.TEST_REDIS_URL!);
  const node = connectNode(wire.url, makeLogger('test', 'fatal'));
  const answers = () =>
    node.client.ping().then(
      () => true,
      () => false,
    );
  await node.connected(60_000);
  try {
    wire.silence();
    assert.is(await answers(), false);
    await eventually('there is a next one', answers);

    wire.silence();
    const lost = answers();
    // Begun after the client's own, of the same length: it ends after that.
    const silence = sleep(SILENT_FOR_MS);
    await wire.cut();
    assert.is(await lost, false);
    await wire.mend();
    await eventually('there is another', answers);
    let ended = 0;
    node.client.on('close', () => (ended += 1));
    await silence;
    assert.is(await answers(), true);
    assert.is(ended, 0);
  } finally {
    node.client.disconnect();
    await wire.cut();
  }
});

test.run();
