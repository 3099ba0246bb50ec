// A restore on another machine, and one that is killed.
import { once } from 'node:events';
import { copyFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../helpers/eventually.ts';
import { makeOwnStack, type StackKey } from '../helpers/own-stack.ts';

const test = suite('a restore');
const folder = process.env.TEST_FOLDER ?? '';
const file = join(folder, 'keytally.backup');
let stack: Awaited<ReturnType<typeof makeOwnStack>>;
let settled: StackKey;

test.before(async () => {
  stack = await makeOwnStack(folder);
  await stack.begin();
  settled = await stack.makeKey();
  await stack.api('post', '/api/v1/jwt', { payload: {} });
  await stack.verifyTimes(settled, 100);
  await stack.must('backup', file);
  await stack.verifyTimes(settled, 1);
  await eventually('it is booked', async () => (await stack.usageOf(settled)) === '101');
  await stack.must('down');
});
test.after(async () => void (await stack?.run('down')));

test('without the master key of the backup nothing is restored; with it, an empty machine gets the stack', async () => {
  const key = join(folder, 'key.copy');
  copyFileSync(join(stack.home, 'master.key'), key);
  const other = { KEYTALLY_HOME: join(folder, 'other') };
  assert.match(
    (await stack.run('restore', file, other)).err,
    /the backup has no master key, and there is none in .*\/other: name your copy/,
  );
  const wrong = join(folder, 'key.wrong');
  writeFileSync(wrong, Buffer.alloc(32, 5).toString('base64'));
  const { err } = await stack.run('restore', file, { ...other, MASTER_KEY_FILE: wrong });
  assert.match(
    err,
    /its signing keys and its audit log need the master key [0-9a-f]{16}, and the one given is [0-9a-f]{16}/,
  );
  assert.not.ok(existsSync(other.KEYTALLY_HOME));

  const restored = await stack.run('restore', file, { ...other, MASTER_KEY_FILE: key });
  assert.is(restored.code, 0, restored.err);
  assert.match(restored.out, /there is no old folder to compare with/);
  assert.match(restored.out, /^1 exact, 0 differ/m);
  assert.match(readFileSync(join(other.KEYTALLY_HOME, 'env'), 'utf8'), /^export KEYTALLY_TOKEN='kt_/m);
  await stack.must('down', undefined, other);
});

test('a restore that is killed leaves the old folder or finishes, and the next one is whole', async () => {
  const child = stack.spawn('restore', file);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  await eventually('it loads', async () => out.includes('loading it into') || child.exitCode !== null);
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  await stack.must('up');
  assert.is(await stack.usageOf(settled), '101', 'the old stack is there');
  await stack.must('down');
  assert.is((await stack.run('restore', file)).code, 0);
  assert.is(await stack.usageOf(settled), '100');
  assert.not.ok(existsSync(`${stack.home}.restoring`));
  await stack.must('down');

  // Cut off between the two moves: the folder is loaded, and none stands in its place.
  renameSync(stack.home, `${stack.home}.restoring`);
  const { out: finished } = await stack.must('up');
  assert.match(finished, `finished the restore from ${file}`);
  assert.is(await stack.usageOf(settled), '100');
});

test.run();
