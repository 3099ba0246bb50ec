// What containers and their machine may suffer, under load: each verification that was answered is in the books, once.
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readComposeFile } from '../compose/helpers/compose-file.ts';
import { patiently, startEngine } from './helpers/engine.ts';
import { makeBaseImages } from './helpers/images.ts';
import { makeComposeStack, type Customer } from './helpers/stack.ts';

const folder = process.env.TEST_FOLDER ?? '';
const running = Object.entries(readComposeFile().services).flatMap(([name, { profiles }]) =>
  profiles || name === 'migrate' ? [] : [name],
);

const engine = await startEngine(folder);
await makeBaseImages(engine, folder);
const stack = await makeComposeStack(engine, join(folder, 'checkout'));
let customer: Customer;

async function startsAgain(name: string, fault: (container: string) => Promise<unknown>) {
  const container = await stack.container(name);
  const restarts = async () => Number(await engine.docker('inspect', '-f', '{{.RestartCount}}', container));
  const before = await restarts();
  await fault(container);
  await patiently(`${name} was started again`, async () => (await restarts()) > before);
  await stack.healthy();
}

test('each container that is killed runs again, and nothing is lost', async () => {
  await stack.must('up');
  customer = await stack.customer();
  await stack.under(customer, async () => {
    for (const name of running) await startsAgain(name, engine.kill);
  });
  await stack.proven(customer);
});

test('Redis and ClickHouse out of the memory that their containers may have start again, and nothing is lost', async () => {
  await stack.under(customer, async () => {
    for (const [name, limit] of Object.entries({ redis: '256m', clickhouse: '1500m' })) {
      // The kernel ends whoever has most, and this makes that the server.
      const eat = 'echo 1000 >/proc/1/oom_score_adj && exec tail /dev/zero';
      await startsAgain(name, async (container) => {
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
