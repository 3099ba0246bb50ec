// Backup and restore of the whole stack, through the commands as an operator gives them.
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../helpers/eventually.ts';
import type { TestKey } from '../helpers/customers.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';

const folder = process.env.TEST_FOLDER ?? '';
const file = join(folder, 'keytally.backup');
let stack: Awaited<ReturnType<typeof makeOwnStack>>;
let settled: TestKey;
let busy: TestKey;

test.before(async () => {
  stack = await makeOwnStack(folder);
  await stack.begin();
  [settled, busy] = [await stack.makeKey(), await stack.makeKey()];
  // A signing key, which is sealed under the master key.
  await stack.api('post', '/api/v1/jwt', { payload: {} });
});

test('a backup holds every verification from before it began, while others go on; a restore refuses the running stack', async () => {
  await stack.verifyTimes(settled, 20);
  let stopped = false;
  const load = (async () => {
    while (!stopped) await stack.verify(busy);
  })();
  const backup = await stack.run('backup', file);
  // Surely after what the backup has of it.
  await stack.verifyTimes(busy, 1);
  stopped = true;
  await load;
  assert.is(backup.code, 0, backup.err);
  assert.match(backup.out, `Keep a copy of ${stack.home}/master.key`);
  assert.equal(globSync(`${file}.*`), [], 'nothing unfinished stays');
  const again = await stack.run('backup', file);
  assert.equal([again.code, again.err], [1, `keytally: ${file} is there already: name another file\n`]);
  const refused = await stack.run('restore', file);
  assert.is(refused.code, 1);
  assert.match(refused.err, `keytally: the stack in ${stack.home} runs: stop it with make down, then restore again`);
});

test('what is restored is the state of the backup: usage, used credits and reconciliation agree, and what was lost is said', async () => {
  await stack.verifyTimes(settled, 10);
  const refill = { workspaceId: stack.workspaceId(), externalMeterId: settled.meter, refill: 30 };
  await stack.api('post', '/api/v1/customer-billing/refill', refill);
  await stack.api('patch', `/api/v1/workspace/${stack.workspaceId()}/api-key/${busy.id}`, { enabled: false });
  await eventually('all is booked', async () => (await stack.usageOf(settled)) === '30');
  await eventually('all of the load too', async () => (await stack.usageOf(busy)) === (await stack.usedOf(busy)));
  const usedBefore = 30 + Number(await stack.usedOf(busy));
  await stack.must('down');
  const { out } = await stack.must('restore', file);

  assert.equal([await stack.usageOf(settled), await stack.usedOf(settled)], ['20', '20']);
  assert.is(await stack.usageOf(busy), await stack.usedOf(busy));
  const lost = usedBefore - 20 - Number(await stack.usedOf(busy));
  assert.ok(lost > 10);
  const calls = lost.toLocaleString('en');
  assert.match(out, `  ${calls} verifications and 0 adjustments: ${lost} used credits of 2 billing records\n`);
  assert.match(out, '  1 refill: 30 bought credits\n  2 changes of settings\n');
  assert.match(out, /^2 exact, 0 differ, 0 undecided/m);
  const [kept] = globSync(`${stack.home}.before-restore-*`);
  assert.match(out, `the old folder is kept: ${kept}\n`);
});

test('the restored stack goes on: its token, its keys and its signing keys work, and it takes changes', async () => {
  await eventually('it is ready', async () => (await fetch(`${stack.apiUrl}/readyz`)).ok);
  for (const key of [settled, busy]) await stack.verifyTimes(key, 1);
  await eventually('it is booked', async () => (await stack.usageOf(settled)) === '21');
  await stack.api('post', '/api/v1/jwt', { payload: {} });
  await stack.api('patch', `/api/v1/workspace/${stack.workspaceId()}/api-key/${busy.id}`, { enabled: false });
  const status = await eventually('it is decided', async () => (await stack.verify(busy)).body.status as string);
  assert.is(status, 'DISABLED');
});
