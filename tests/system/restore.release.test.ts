// A restore on another machine, and one that is stopped, killed, or can't start what it restored.
import type { ChildProcess } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readRecords } from '../../apps/stack/process/leftovers.ts';
import { eventually } from '../helpers/eventually.ts';
import type { TestKey } from '../helpers/customers.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';

const folder = process.env.TEST_FOLDER ?? '';
const file = join(folder, 'keytally.backup');
const key = join(folder, 'key.copy');
let stack: Awaited<ReturnType<typeof makeOwnStack>>;
let settled: TestKey;
let restoring: ChildProcess | undefined;

test.before(async () => {
  stack = await makeOwnStack(folder);
  await stack.begin();
  copyFileSync(join(stack.home, 'master.key'), key);
  settled = await stack.makeKey();
  await stack.api('post', '/api/v1/jwt', { payload: {} });
  await stack.verifyTimes(settled, 100);
  await stack.must('backup', file);
  await stack.verifyTimes(settled, 1);
  await eventually('it is booked', async () => (await stack.usageOf(settled)) === '101');
  await stack.must('down');
});
test.after.each(() => void restoring?.kill('SIGKILL'));

test('without the master key of the backup nothing is restored; with it, an empty machine gets the stack', async () => {
  const other = { KEYTALLY_HOME: join(folder, 'other') };
  const { err } = await stack.run('restore', file, other);
  assert.match(err, /the backup has no master key, and there is none in .*\/other: name your copy/);
  assert.not.ok(existsSync(other.KEYTALLY_HOME));

  const restored = await stack.run('restore', file, { ...other, MASTER_KEY_FILE: key, MASTER_KEY_COMMAND: 'exit 1' });
  assert.is(restored.code, 0, restored.err);
  assert.match(restored.out, /there is no old folder to compare with/);
  assert.match(restored.out, /^1 exact, 0 differ/m);
  assert.match(readFileSync(join(other.KEYTALLY_HOME, 'env'), 'utf8'), /^export KEYTALLY_TOKEN='kt_/m);
  await stack.must('down', undefined, other);
});

for (const [where, home] of [
  ['comparing it with the old folder', () => stack.home],
  ['loading it into', () => join(folder, 'new')],
] as const)
  test(`while a restore is ${where}, no command takes it for a stack, and a signal ends all that it started`, async () => {
    const env = { KEYTALLY_HOME: home(), MASTER_KEY_FILE: key };
    const before = existsSync(home());
    // It stands still, so that it can't be done before the commands have looked.
    const { child, ended, said } = await restoreUntil(where, 'SIGSTOP', env);
    const files: Record<string, string> = { restore: file, backup: join(folder, 'meanwhile.backup') };
    for (const command of ['up', 'serve', 'down', 'restore', 'status', 'monitor', 'demo', 'backup', 'reconcile']) {
      const { code, err } = await stack.run(command, files[command], env);
      assert.is(code, 1, command);
      assert.match(err, `make restore is at work on the stack in ${home()}: `, command);
    }
    child.kill('SIGTERM');
    child.kill('SIGCONT');
    assert.equal(await ended, [1, null], said());
    for (const one of [home(), `${home()}.restoring`]) assert.equal(readRecords(one), []);
    assert.is(existsSync(home()), before);
    assert.equal(loaded(home()), [], 'nothing of it fills the disk');
  });

test('a restore that is killed leaves the old folder, and make down ends what it has left', async () => {
  const killed = await restoreUntil('loading it into', 'SIGKILL');
  assert.equal(await killed.ended, [null, 'SIGKILL'], killed.said());
  await stack.must('up');
  assert.is(await stack.usageOf(settled), '101', 'the old stack is there');
  assert.is.not(readRecords(`${stack.home}.restoring`).length, 0);
  await stack.must('down');
  assert.equal(readRecords(`${stack.home}.restoring`), []);

  const env = { KEYTALLY_HOME: join(folder, 'new'), MASTER_KEY_FILE: key };
  const onNew = await restoreUntil('loading it into', 'SIGKILL', env);
  assert.equal(await onNew.ended, [null, 'SIGKILL'], onNew.said());
  assert.is.not(readRecords(`${env.KEYTALLY_HOME}.restoring`).length, 0);
  await stack.must('down', undefined, env);
  assert.equal(readRecords(`${env.KEYTALLY_HOME}.restoring`), []);
});

test('what is lost is said and kept, also where the start of what was restored fails', async () => {
  const listener = createServer().listen(Number(new URL(stack.apiUrl).port), '127.0.0.1');
  const { code, out, err } = await stack.run('restore', file);
  listener.close();
  assert.is(code, 1);
  assert.match(err, /^keytally: port \d+ for api is in use/m);
  const [, lost = ''] = /^lost since the backup:\n((?: {2}.*\n)+)/m.exec(out) ?? [];
  assert.match(lost, /^ {2}1 verification and 0 adjustments: 1 used credits of 1 billing record$/m);
  assert.match(out, `what is lost since the backup is in ${stack.home}/lost-since-backup.txt\n`);
  assert.is(readFileSync(join(stack.home, 'lost-since-backup.txt'), 'utf8'), lost.replaceAll(/^ {2}/gm, ''));

  await stack.must('up');
  assert.is(await stack.usageOf(settled), '100');
  assert.not.ok(existsSync(`${stack.home}.restoring`));
  await stack.must('down');
});

test('a restore that was cut off between its two moves is finished by the next start', async () => {
  // The folder is loaded, and none stands in its place.
  renameSync(stack.home, `${stack.home}.restoring`);
  const { out: finished } = await stack.must('up');
  assert.match(finished, `finished the restore from ${file}`);
  assert.match(finished, `${stack.home}/lost-since-backup.txt`);
  assert.is(await stack.usageOf(settled), '100');
});

/** What a restore into a home has left that a start would need. */
function loaded(home: string): string[] {
  return readdirSync(`${home}.restoring`).filter((name) => !['lock', 'logs'].includes(name));
}

/** Begins a restore, and sends it a signal as soon as it has printed what it does. */
async function restoreUntil(printed: string, signal: NodeJS.Signals, env: NodeJS.ProcessEnv = {}) {
  const restore = stack.spawn('restore', file, env);
  const { child, said } = restore;
  restoring = child;
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', function look() {
      if (!said().includes(printed)) return;
      child.kill(signal);
      child.stdout.off('data', look);
      resolve();
    });
    child.once('close', () => reject(new Error(`it ended before it said '${printed}':\n${said()}`)));
  });
  return restore;
}
