// What an operator of one machine may do to the stack beside what stack.e2e.test.ts does.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readJson } from '../../apps/stack/process/files.ts';
import { identify, isAlive, type ProcessId } from '../../apps/stack/process/processes.ts';
import { processNames } from '../../apps/stack/servers/programs.ts';
import { eventually } from '../helpers/eventually.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';

const names = processNames('redis');

const stack = await makeOwnStack(process.env.TEST_FOLDER ?? '');
const started = await stack.begin();
const port = Number(new URL(stack.apiUrl).port);

test('each file of its folder is of its owner alone; without it nobody gets into a server, and no process list has a password', async () => {
  const entries = ['', 'logs', 'postgres'].flatMap((folder) =>
    readdirSync(join(stack.home, folder)).map((name) => join(stack.home, folder, name)),
  );
  // Who may not enter a folder reaches no file in it. As root, Postgres runs as another user, who has to pass through.
  const open = entries.filter((path) => (statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077);
  assert.equal(open, [join(stack.home, 'postgres')]);
  const env = execFileSync('sh', ['-c', `set -a; . '${stack.home}/env'; env`], { encoding: 'utf8' });
  assert.match(env, new RegExp(`^KEYTALLY_API_URL=${stack.apiUrl}$`, 'm'));
  const servers = stack.processes();
  const redis = connect(servers.redis!.port, '127.0.0.1');
  redis.end('DBSIZE\r\n');
  assert.match(await text(redis), /^-NOAUTH/);
  const body = "select * from file('/etc/passwd', 'LineAsString')";
  const books = await fetch(`http://127.0.0.1:${servers.clickhouse!.port}/`, { method: 'POST', body });
  assert.is(books.status, 403);
  const passwords = [...env.matchAll(/^(?:DATABASE|REDIS|CLICKHOUSE)_URL=\w+:\/\/\w*:(.+)@/gm)];
  assert.is(passwords.length, 3);
  const running = [supervisor(), ...Object.values(servers)];
  const lists = running.map(({ pid }) => readFileSync(`/proc/${pid}/cmdline`, 'utf8')).join('\n');
  for (const [, password] of passwords) assert.not.match(lists, password!);
});

test('a start by root says what that risks, and one by another user does not', () => {
  const risk = /^it runs as root, so whoever takes over one of its programs has this/m;
  assert.is(risk.test(started.out), process.getuid?.() === 0);
});

test('a second up changes nothing and prints the same; one at another port, or of another home at this one, says so in one line', async () => {
  const before = stack.processes();
  const { out } = await stack.must('up');
  assert.match(out, /already running/);
  assert.match(out, /^\. .*\/env; /m);
  assert.not.match(out, 'LOG_LEVEL');
  const changed = await stack.must('up', undefined, { LOG_LEVEL: 'debug' });
  assert.match(changed.out, /^It goes on without what changed .*: LOG_LEVEL\./m);
  const otherPort = await stack.run('up', undefined, { KEYTALLY_PORT: String(port + 7) });
  assert.match(otherPort.err, /^keytally: the stack in .* already runs with KEYTALLY_PORT=\d+, not \d+: .*\n$/);
  const otherHome = await stack.run('up', undefined, { KEYTALLY_HOME: `${stack.home}-other` });
  assert.match(otherHome.err, /^keytally: port \d+ for api is in use; .*\n$/);
  assert.equal([otherPort.code, otherHome.code], [1, 1]);
  assert.equal(stack.processes(), before);
});

test('each process that is killed runs again on its port; a supervisor that is killed is replaced by up, which loses nothing', async () => {
  const before = stack.processes();
  for (const { pid } of Object.values(before)) process.kill(pid, 'SIGKILL');
  const runsAgain = (name: string) => stack.processes()[name] && stack.processes()[name]?.pid !== before[name]?.pid;
  await eventually('all run again', async () => names.every(runsAgain));
  for (const name of names) assert.is(stack.processes()[name]?.port, before[name]?.port);
  await eventually('all is well', async () => (await stack.run('status')).code === 0);

  const old = await killSupervisor();
  assert.is((await stack.run('status')).code, 1);
  await stack.must('up');
  assert.not.ok(old.some(isAlive), 'up stopped what the killed supervisor had started');
  assert.match((await stack.api('get', '/api/v1/workspace')).text, /"name":"own stack"/);
});

test('down stops everything, also without a supervisor, and succeeds when nothing runs', async () => {
  const old = await killSupervisor();
  await stack.must('down');
  assert.not.ok(old.some(isAlive));
  assert.equal(stack.processes(), {});
  await stack.must('down');
  await stack.must('logs');
});

test('a start that cannot succeed gives the reason in one line and leaves nothing running', async () => {
  const listener = createServer().listen(port + 1, '127.0.0.1');
  const { code, err } = await stack.run('up');
  listener.close();
  assert.is(code, 1);
  assert.match(err, /^keytally: port \d+ for verify is in use; .*\n$/);
  assert.equal(stack.processes(), {});
});

function supervisor(): ProcessId {
  return readJson<ProcessId>(join(stack.home, 'supervisor.json'))!;
}

async function killSupervisor(): Promise<ProcessId[]> {
  const old = Object.values(stack.processes()).map(({ pid }) => identify(pid));
  const killed = supervisor();
  process.kill(killed.pid, 'SIGKILL');
  await eventually('it is dead', async () => !isAlive(killed));
  return old.filter((id) => id !== undefined);
}
