// What containers and their machine may suffer, under load: each verification that was answered is in the books, once.
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readComposeFile } from '../compose/helpers/compose-file.ts';
import { eventually } from '../helpers/eventually.ts';
import { startEngine } from './helpers/engine.ts';
import { makeBaseImages } from './helpers/images.ts';
import { makeComposeStack, type ComposeStack, type Customer } from './helpers/stack.ts';

const folder = process.env.TEST_FOLDER ?? '';
const running = Object.entries(readComposeFile().services).flatMap(([name, { profiles }]) =>
  profiles || name === 'migrate' ? [] : [name],
);
// Where each server keeps its data, and the user that it is.
const disks = {
  redis: { path: '/data', user: 999, megabytes: 96 },
  postgres: { path: '/var/lib/postgresql', user: 999, megabytes: 256 },
  clickhouse: { path: '/var/lib/clickhouse', user: 101, megabytes: 256 },
  kafka: { path: '/var/lib/kafka/data', user: 1000, megabytes: 256 },
};

const engine = await startEngine(folder);
await makeBaseImages(engine, folder);
const stack = await makeComposeStack(engine, join(folder, 'checkout'));
let customer: Customer;

async function startsAgain(one: ComposeStack, name: string, fault: (container: string) => Promise<unknown>) {
  const container = await one.container(name);
  const restarts = async () => Number(await engine.docker('inspect', '-f', '{{.RestartCount}}', container));
  const before = await restarts();
  await fault(container);
  await eventually(`${name} was started again`, async () => (await restarts()) > before);
  await one.healthy();
}

test('each container that is killed runs again, and nothing is lost', async () => {
  await stack.must('up');
  customer = await stack.customer();
  await stack.under(customer, async () => {
    for (const name of running) await startsAgain(stack, name, engine.kill);
  });
  await stack.proven(customer);
});

test('Redis and ClickHouse out of the memory that their containers may have start again, and nothing is lost', async () => {
  await stack.under(customer, async () => {
    for (const [name, limit] of Object.entries({ redis: '256m', clickhouse: '1500m' })) {
      // The kernel ends whoever has most, and this makes that the server.
      const eat = 'echo 1000 >/proc/1/oom_score_adj && exec tail /dev/zero';
      await startsAgain(stack, name, async (container) => {
        await engine.docker('update', '--memory', limit, '--memory-swap', limit, container);
        await stack.exec(name, 'sh', '-c', eat);
      });
    }
  });
  await stack.proven(customer);
});

test('a new image under load is taken without a loss, and so is the way back', async () => {
  for (const version of ['next', 'local']) {
    await stack.under(customer, async () => {
      const { code, err } = await stack.run('make', ['-s', 'up'], { KEYTALLY_VERSION: version });
      assert.is(code, 0, err);
    });
    const image = await engine.docker('inspect', '-f', '{{.Config.Image}}', await stack.container('verify'));
    assert.is(image, `keytally:${version}`);
  }
  await stack.proven(customer);
});

test('after a machine that lost its power has started again, all containers run and nothing is lost', async () => {
  await stack.under(customer, async () => {
    await engine.cutPower();
    await engine.start();
    await stack.healthy();
  });
  await stack.proven(customer);
});

test('each server whose volume is full serves again once there is space, and nothing is lost', async () => {
  await stack.compose('down', '--volumes');
  const volumes = Object.entries(disks).map(([name, { user, megabytes }]) => {
    const options = { type: 'tmpfs', device: 'tmpfs', o: `size=${megabytes}m,uid=${user},gid=${user},mode=0700` };
    return [name, { driver_opts: options }];
  });
  const small = await makeComposeStack(engine, join(folder, 'small'), { volumes: Object.fromEntries(volumes) });
  await small.must('up');
  // Without another container on it such a volume would be emptied when its server starts again.
  const mounts = Object.keys(disks).flatMap((name) => ['-v', `keytally_${name}:/mnt/${name}`]);
  const holder = await engine.docker(
    'run',
    '-d',
    '--network',
    'none',
    ...mounts,
    'keytally:local',
    'sleep',
    'infinity',
  );
  const load = await small.customer();
  await small.under(load, async () => {
    for (const name of Object.keys(disks)) {
      const filler = `/mnt/${name}/filler`;
      const since = new Date().toISOString();
      const saysSo = async () => {
        const { out, err } = await small.run('docker', ['logs', '--since', since, await small.container(name)]);
        return /no space left|write to the disk failed/i.test(out + err);
      };
      // Each write is meant to fail with a full disk: first in large pieces, then to the last page.
      const fill = `for size in 1M 4k; do dd if=/dev/zero of=${filler} bs=$size oflag=append conv=notrunc; done; true`;
      await engine.docker('exec', '-u', '0', holder, 'sh', '-c', fill);
      await eventually(`${name} has no space`, saysSo);
      await engine.docker('exec', '-u', '0', holder, 'rm', filler);
      await small.healthy();
    }
  });
  await small.proven(load);
});
