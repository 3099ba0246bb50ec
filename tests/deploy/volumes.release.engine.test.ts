// Servers on a full volume, under load.
import { join } from 'node:path';
import { test } from 'uvu';
import { patiently, startEngine } from './helpers/engine.ts';
import { makeBaseImages } from './helpers/images.ts';
import { makeComposeStack } from './helpers/stack.ts';

const folder = process.env.TEST_FOLDER ?? '';
// The user that each is, and how much it has.
const disks = {
  redis: { user: 999, megabytes: 96 },
  postgres: { user: 999, megabytes: 256 },
  clickhouse: { user: 101, megabytes: 256 },
  kafka: { user: 1000, megabytes: 256 },
};

const engine = await startEngine(folder);
await makeBaseImages(engine, folder);

test('each server whose volume is full serves again once there is space, and nothing is lost', async () => {
  const volumes = Object.entries(disks).map(([name, { user, megabytes }]) => {
    const options = { type: 'tmpfs', device: 'tmpfs', o: `size=${megabytes}m,uid=${user},gid=${user},mode=0700` };
    return [name, { driver_opts: options }];
  });
  const stack = await makeComposeStack(engine, join(folder, 'checkout'), { volumes: Object.fromEntries(volumes) });
  await stack.must('up');
  // Without another container on it such a volume would be emptied when its server starts again.
  const mounts = Object.keys(disks).flatMap((name) => ['-v', `keytally_${name}:/mnt/${name}`]);
  const sleeping = ['keytally:local', 'sleep', 'infinity'];
  const holder = await engine.docker('run', '-d', '--network', 'none', ...mounts, ...sleeping);
  const load = await stack.customer();
  await stack.under(load, async () => {
    for (const name of Object.keys(disks)) {
      const filler = `/mnt/${name}/filler`;
      const since = new Date().toISOString();
      const saysSo = async () => {
        // ClickHouse refuses what it has no space for, and the consumer tells.
        const logs = await stack.compose('logs', '--no-color', '--since', since, name, 'consumer');
        return /no space left|not enough space|short write|write to the disk failed/i.test(logs);
      };
      // Each write is meant to fail with a full disk: first in large pieces, then to the last page.
      const fill = `for size in 1M 4k; do dd if=/dev/zero of=${filler} bs=$size oflag=append conv=notrunc; done; true`;
      await engine.docker('exec', '-u', '0', holder, 'sh', '-c', fill);
      await patiently(`${name} has no space`, saysSo);
      await engine.docker('exec', '-u', '0', holder, 'rm', filler);
      await stack.healthy();
    }
  });
  await stack.proven(load);
});
