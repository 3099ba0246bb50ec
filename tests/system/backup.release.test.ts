// Backup and restore of the whole stack, through the commands as an operator gives them.
import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readEnvFile } from '../../apps/stack/process/home.ts';
import postgres from '../../shared/stores/postgres-driver.ts';
import { eventually } from '../helpers/eventually.ts';
import { makeOwnStack, type StackKey } from '../helpers/own-stack.ts';

const test = suite('a backup of the stack');
const folder = process.env.TEST_FOLDER ?? '';
const file = join(folder, 'keytally.backup');
let stack: Awaited<ReturnType<typeof makeOwnStack>>;
let settled: StackKey;
let busy: StackKey;

test.before(async () => {
  stack = await makeOwnStack(folder);
  await stack.begin();
  [settled, busy] = [await stack.makeKey(), await stack.makeKey()];
  // A signing key, which is sealed under the master key.
  await stack.api('post', '/api/v1/jwt', { payload: {} });
});
test.after(async () => void (await stack?.run('down')));

test('it holds every verification from before it began, while others go on; a restore refuses the running stack', async () => {
  await stack.verifyTimes(settled, 100);
  const stop = new AbortController();
  const load = Promise.all(
    Array.from({ length: 4 }, async () => {
      while (!stop.signal.aborted) await stack.verify(busy);
    }),
  );
  const backup = await stack.run('backup', file);
  // Surely after what the backup has of it.
  await stack.verifyTimes(busy, 1);
  stop.abort();
  await load;
  assert.is(backup.code, 0, backup.err);
  assert.match(backup.out, `in ${file} (`);
  assert.match(backup.out, `Keep a copy of ${stack.home}/master.key`);
  assert.equal(globSync(`${file}.*`), [], 'nothing unfinished stays');

  const again = await stack.run('backup', file);
  assert.equal([again.code, again.err], [1, `keytally: ${file} is there already: name another file\n`]);
  const other = join(folder, 'other.backup');
  writeFileSync(`${other}.partial`, 'of another make backup');
  const second = await stack.run('backup', other);
  assert.is(second.code, 1);
  assert.match(second.err, `keytally: ${other}.partial is there: another make backup writes it`);
  assert.is(readFileSync(`${other}.partial`, 'utf8'), 'of another make backup');
  rmSync(`${other}.partial`);

  // Days are being summed up, so that it can't be done before the signal.
  const sql = postgres(readEnvFile({ folder: stack.home }).DATABASE_URL!, { max: 1 });
  await sql`select pg_advisory_lock(hashtext('keytally jobs'), hashtext('rollup'))`;
  const { child, ended, said } = stack.spawn('backup', other);
  await eventually('it is at work', async () => existsSync(`${other}.partial`) || child.exitCode !== null);
  child.kill('SIGTERM');
  assert.equal(await ended, [1, null], said());
  await sql.end();
  assert.equal(globSync(`${other}*`), [], 'it removes what it wrote');

  const refused = await stack.run('restore', file);
  assert.equal(
    [refused.code, refused.err],
    [1, `keytally: the stack in ${stack.home} runs: stop it with make down, then restore again\n`],
  );
});

test('what is restored is the state of the backup: usage, used credits and reconciliation agree, and what was lost is said', async () => {
  await stack.verifyTimes(settled, 50);
  await stack.api('post', '/api/v1/customer-billing/refill', {
    workspaceId: stack.workspaceId(),
    externalMeterId: settled.meter,
    refill: 30,
  });
  await stack.api('patch', `/api/v1/workspace/${stack.workspaceId()}/api-key/${busy.id}`, { enabled: false });
  await eventually('all is booked', async () => (await stack.usageOf(settled)) === '150');
  await eventually('all of the load too', async () => (await stack.usageOf(busy)) === (await stack.usedOf(busy)));
  const usedBefore = 150 + Number(await stack.usedOf(busy));
  // An undecided call may have been debited.
  assert.ok(usedBefore >= settled.valid + busy.valid);
  await stack.must('down');
  const restored = await stack.run('restore', file);
  assert.is(restored.code, 0, restored.err + restored.out);

  assert.equal([await stack.usageOf(settled), await stack.usedOf(settled)], ['100', '100']);
  assert.is(await stack.usageOf(busy), await stack.usedOf(busy));
  const lost = usedBefore - 100 - Number(await stack.usedOf(busy));
  assert.ok(lost > 50);
  const calls = lost.toLocaleString('en');
  assert.match(restored.out, `  ${calls} verifications and 0 adjustments: ${lost} used credits of 2 billing records\n`);
  assert.match(restored.out, '  1 refill: 30 bought credits\n  2 changes of settings\n');
  assert.match(restored.out, new RegExp(`^ +\\d{4}-.* PATCH /api/v1/workspace/.+ ${busy.id}$`, 'm'));
  assert.match(restored.out, /^2 exact, 0 differ, 0 undecided/m);
  assert.ok(existsSync(join(keptFolder(), 'postgres/data')));
  assert.match(restored.out, `the old folder is kept: ${keptFolder()}\n`);
});

test('the restored stack goes on: its token, its keys and its signing keys work, and it takes changes', async () => {
  await eventually('it is ready', async () => (await fetch(`${stack.apiUrl}/readyz`)).ok);
  for (const key of [settled, busy]) await stack.verifyTimes(key, 1);
  await eventually('it is booked', async () => (await stack.usageOf(settled)) === '101');
  await stack.api('post', '/api/v1/jwt', { payload: {} });
  await stack.api('patch', `/api/v1/workspace/${stack.workspaceId()}/api-key/${busy.id}`, { enabled: false });
  const status = await eventually('it is decided', async () => (await stack.verify(busy)).body.status as string);
  assert.is(status, 'DISABLED');
  await stack.must('down');
});

test('a file that is damaged, cut off, missing or no backup changes nothing', async () => {
  const before = listing();
  const bytes = readFileSync(file);
  const bad = join(folder, 'bad.backup');
  const refusal = async (content: Buffer | undefined) => {
    rmSync(bad, { force: true });
    if (content) writeFileSync(bad, content);
    const { code, err } = await stack.run('restore', bad);
    assert.is(code, 1);
    return err;
  };
  const middle = Math.floor(bytes.length / 2);
  assert.match(
    await refusal(Buffer.concat([bytes.subarray(0, middle), Buffer.alloc(3), bytes.subarray(middle)])),
    /damaged/,
  );
  assert.match(await refusal(bytes.subarray(0, middle)), /^restore: it is cut off\nkeytally: nothing was restored\n$/);
  assert.match(await refusal(Buffer.from('PGDMP')), /it is no backup made by make backup/);
  assert.match(await refusal(undefined), `keytally: there is no file ${bad}\n`);
  assert.match((await stack.run('restore')).err, /name the file to restore: make restore FILE=/);
  assert.equal(listing(), before);
});

test.run();

function keptFolder(): string {
  return globSync(`${stack.home}.before-restore-*`).toSorted().at(-1) ?? '';
}

/** What stands beside the home, and the files in it that a start would change. */
function listing(): string[] {
  const names = globSync([`${stack.home}*`, `${stack.home}/*`, `${stack.home}/clickhouse/store/*/*/*`]);
  return names.map((name) => name.slice(folder.length)).toSorted();
}
