// The units for one machine: systemd finds nothing wrong with them, and what they start runs in the foreground.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout, findSupervisor } from '../../apps/stack/process/home.ts';
import { eventually } from '../helpers/eventually.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';

const folder = process.env.TEST_FOLDER ?? '';
const stack = await makeOwnStack(folder);
const service = readFileSync(join(checkout, 'deploy/systemd/keytally.service'), 'utf8');
const production = { NODE_ENV: /^Environment=NODE_ENV=(.*)$/m.exec(service)?.[1] };
const units = globSync('deploy/systemd/*', { cwd: checkout }).toSorted();

test('systemd finds nothing wrong with any unit, and something with a misspelt one', async () => {
  const copies = join(folder, 'units');
  mkdirSync(copies, { recursive: true });
  const verify = async (change: (text: string) => string): Promise<string> => {
    const files = units.map((path) => {
      const file = join(copies, basename(path));
      writeFileSync(file, change(readFileSync(join(checkout, path), 'utf8')).replaceAll('/opt/keytally', checkout));
      return file;
    });
    const said = promisify(execFile)('systemd-analyze', ['verify', ...files]).catch((error: unknown) => error);
    const { stderr } = (await said) as { stderr: string };
    // It also reads the units of this machine.
    return (stderr.match(/^.*keytally.*$/gm) ?? []).join('\n');
  };
  assert.is(units.length, 3);
  assert.is(await verify((text) => text), '');
  assert.match(await verify((text) => text.replace('KillMode=mixed', 'KilMode=mixed')), /KilMode/);
});

test('both services have one home, in a folder in which a restore can put another in its place; the stack waits for the clock, and outlives one process', () => {
  const backup = readFileSync(join(checkout, 'deploy/systemd/keytally-backup.service'), 'utf8');
  const homes = [service, backup].map((text) => /^Environment=KEYTALLY_HOME=(\S+)/m.exec(text)?.[1]);
  const [, state] = /^StateDirectory=(\S+)$/m.exec(service) ?? [];
  assert.equal(homes, Array(2).fill(`/var/lib/${state}/stack`));
  assert.match(service, /^After=.*\btime-sync\.target\b/m);
  assert.match(service, /^OOMPolicy=continue$/m);
});

test('the service refuses settings that are for tests alone', async () => {
  const { code, out } = await stack.run('serve', undefined, { ...production, TEST_TOKEN: `kt_${'a'.repeat(43)}` });
  assert.is(code, 1);
  assert.match(out, /TEST_TOKEN is for development, and must not be set in production/);
});

test('what a killed backup left is removed before the next one; backups, and one being made by hand, stay', () => {
  const backups = join(folder, 'backups');
  mkdirSync(backups, { recursive: true });
  for (const name of ['a.backup', 'b.backup.partial', 'c.backup.partial']) writeFileSync(join(backups, name), '');
  const yesterday = new Date(Date.now() - 86_400_000);
  for (const name of ['a.backup', 'b.backup.partial']) utimesSync(join(backups, name), yesterday, yesterday);
  const unit = readFileSync(join(checkout, 'deploy/systemd/keytally-backup.service'), 'utf8');
  const [, command = ''] = /^ExecStartPre=(.*)$/m.exec(unit) ?? [];
  execFileSync('sh', ['-ec', command.replaceAll('/var/lib/keytally-backups', backups)]);
  assert.equal(readdirSync(backups).toSorted(), ['a.backup', 'c.backup.partial']);
});

test('serve runs the stack in the foreground, ends cleanly when told, and fails when it dies', async () => {
  const first = serve();
  await ready();
  assert.match((await stack.run('serve')).out, /runs already: stop it with make down/);
  await ready();
  // Its settings are those of the unit, so what a shell lacks of them has not changed.
  assert.not.match((await stack.run('up', undefined, { VERIFY_DEADLINE_MS: '' })).out, 'goes on without');
  const { out } = await stack.run('up', undefined, { LOG_LEVEL: 'debug' });
  assert.match(out, /a service .*: LOG_LEVEL, VERIFY_DEADLINE_MS /);
  first.process.kill('SIGTERM');
  assert.equal(await first.ended, [0, null]);
  assert.not.ok(findSupervisor({ folder: stack.home }), 'nothing is left');
  assert.is((await stack.run('status')).code, 1);

  const second = serve();
  await ready();
  process.kill(findSupervisor({ folder: stack.home })!.pid, 'SIGKILL');
  assert.equal(await second.ended, [null, 'SIGKILL'], 'systemd starts it again');

  // As systemd does, without the processes that it would have ended: what an earlier run left is stopped first.
  const third = serve();
  await ready();
  await stack.must('down');
  assert.equal(await third.ended, [0, null], 'make down is a clean end, after which it stays down');
});

async function ready(): Promise<void> {
  // Also on a machine that is busy with other work.
  await eventually('the stack serves', async () => (await stack.run('status')).code === 0, 600_000);
}

function serve() {
  const own = { KEYTALLY_HOME: stack.home, KEYTALLY_PORT: new URL(stack.apiUrl).port };
  const env = { ...process.env, ...production, ...own };
  const child = spawn(process.execPath, ['apps/stack/main.ts', 'serve'], { cwd: checkout, env, stdio: 'ignore' });
  return { process: child, ended: once(child, 'exit') };
}
