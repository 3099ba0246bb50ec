import { randomBytes } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../tests/helpers/customers.ts';
import { untilOpen } from '../../../tests/helpers/own-redis.ts';
import { makeRebuildWorld } from '../../../tests/helpers/rebuild-world.ts';

const own = await makeRebuildWorld('imported', { BUS: 'redis' });

test('they verify again after Redis was emptied, and after a shard came back from before their import', async () => {
  const meter = await own.customers.newMeter({ totalCredits: '100' });
  const everyShardIsOpen = () => untilOpen(own.redis, own.world.api.url, own.world.verify!.url);
  const importTwo = async (): Promise<string[]> => {
    const keys = [{}, { externalMeterId: meter }].map((fields) => {
      const key = `sk-${randomBytes(24).toString('hex')}`;
      return { name: 'n', workspaceId: own.workspaceId, key, ...fields };
    });
    await must(200, own.world.call('post', '/api/v1/api-key/import', { keys }));
    return keys.map(({ key }) => key);
  };
  const keys = await importTwo();
  await own.redis.keep('before');
  await everyShardIsOpen();
  keys.push(...(await importTwo()));
  const allAreValid = async () => {
    await everyShardIsOpen();
    for (const key of keys) assert.is((await must(200, own.customers.verify({ key }))).body.status, 'VALID');
  };
  await own.redis.comeBackAs('before');
  await allAreValid();
  await own.redis.admin.flushall();
  await allAreValid();
});
