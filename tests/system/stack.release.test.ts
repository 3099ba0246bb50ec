// What an operator of one machine may do to the stack beside what stack.e2e.test.ts does.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, readlinkSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readJson } from '../../apps/stack/process/files.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { identify, isAlive, type ProcessId } from '../../apps/stack/process/processes.ts';
import { processNames } from '../../apps/stack/servers/programs.ts';
import { eventually } from '../helpers/eventually.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';

const names = processNames('redis');
const SECOND_USER = { uid: 65_533, gid: 65_533 };

const stack = await makeOwnStack(process.env.TEST_FOLDER ?? '');
await stack.begin();
const port = Number(new URL(stack.apiUrl).port);

test('each file of its folder is of its owner alone; without it nobody gets into a server, and no process list has a password', async () => {
  // As root, Postgres runs as another user, who has to pass through.
  const entries = readdirSync(stack.home, { withFileTypes: true });
  const modes = entries.filter((one) => one.isFile()).map(({ name }) => [name, statSync(join(stack.home, name)).mode]);
  assert.equal(
    modes.filter(([, mode]) => Number(mode) & 0o077),
    [],
  );
  const env = execFileSync('sh', ['-c', `set -a; . '${stack.home}/env'; env`], { encoding: 'utf8' });
  assert.match(env, new RegExp(`^KEYTALLY_API_URL=${stack.apiUrl}$`, 'm'));
  const servers = processes();
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

test('a second user of the machine opens no file of its folder, and no port of it says more than that it wants a password', () => {
  if (process.getuid?.() !== 0 || !existsSync('/proc/net/tcp')) {
    console.error('NOT TESTED as a second user: only root of a Linux can be two users');
    return;
  }
  const files = readdirSync(stack.home, { recursive: true, withFileTypes: true });
  const paths = [stack.home, ...files.map(({ parentPath, name }) => join(parentPath, name))];
  const ports = listened([supervisor(), ...Object.values(processes())]);
  for (const [name, { port }] of Object.entries(processes())) assert.ok(ports.includes(port), name);
  const script = join(checkout, 'tests/helpers/second-user.ts');
  const input = JSON.stringify({ paths, ports });
  const told = execFileSync(process.execPath, [script], { ...SECOND_USER, cwd: '/', input });
  const { opened, said } = JSON.parse(String(told)) as { opened: string[]; said: [number, string][] };
  assert.equal(opened, []);
  const { api, verify } = processes();
  for (const [at, text] of said) {
    const isPublic = at === api!.port || at === verify!.port;
    assert.match(
      text,
      isPublic ? /^(HTTP\/1.1 4..|$)/ : /^(-NOAUTH|-ERR|HTTP\/1.1 4..|R\0\0\0.\0\0\0\n|$)/s,
      `port ${at}`,
    );
  }
});

test('a second up changes nothing and prints the same; one at another port, or of another home at this one, says so in one line', async () => {
  const before = processes();
  const { out } = await stack.must('up');
  assert.match(out, /already running/);
  assert.is(out.split('\n').filter((line) => line.includes('curl')).length, 3);
  const otherPort = await stack.run('up', undefined, { KEYTALLY_PORT: String(port + 7) });
  assert.match(otherPort.err, /^keytally: the stack in .* already runs on port \d+, not \d+: .*\n$/);
  const otherHome = await stack.run('up', undefined, { KEYTALLY_HOME: `${stack.home}-other` });
  assert.match(otherHome.err, /^keytally: port \d+ for api is in use; .*\n$/);
  assert.equal([otherPort.code, otherHome.code], [1, 1]);
  assert.equal(processes(), before);
});

test('each process that is killed runs again on its port; a supervisor that is killed is replaced by up, which loses nothing', async () => {
  const before = processes();
  for (const { pid } of Object.values(before)) process.kill(pid, 'SIGKILL');
  const runsAgain = (name: string) => processes()[name] && processes()[name]?.pid !== before[name]?.pid;
  await eventually('all run again', async () => names.every(runsAgain));
  for (const name of names) assert.is(processes()[name]?.port, before[name]?.port);
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
  assert.equal(processes(), {});
  await stack.must('down');
  await stack.must('logs');
});

test('a start that cannot succeed gives the reason in one line and leaves nothing running', async () => {
  const listener = createServer().listen(port + 1, '127.0.0.1');
  const { code, err } = await stack.run('up');
  listener.close();
  assert.is(code, 1);
  assert.match(err, /^keytally: port \d+ for verify is in use; .*\n$/);
  assert.equal(processes(), {});
});

test('a master key that takes the place of another encrypts all again, and then needs the old one no more', async () => {
  const file = join(stack.home, 'master.key');
  const old = `${stack.home}.master.key.old`;
  renameSync(file, old);
  writeFileSync(file, randomBytes(32).toString('base64'), { mode: 0o600 });
  await stack.must('up', undefined, { MASTER_KEY_PREVIOUS_FILE: old });
  await eventually('its log opens with the new key alone', async () => {
    return (await stack.run('audit-log-verify')).code === 0;
  });
  await stack.must('down');
  await stack.must('up');
  await stack.must('audit-log-verify');
});

/** The ports on which some processes listen, by Linux's tables of sockets. */
function listened(of: { pid: number }[]): number[] {
  const sockets = new Set(
    of.flatMap(({ pid }) => readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`))),
  );
  const rows = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'utf8').split('\n'));
  return rows
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === '0A' && sockets.has(`socket:[${inode}]`))
    .map(([, address = '']) => parseInt(address.split(':')[1]!, 16));
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function processes(): Record<string, { pid: number; port: number }> {
  return readJson(join(stack.home, 'processes.json')) ?? {};
}

function supervisor(): ProcessId {
  return readJson<ProcessId>(join(stack.home, 'supervisor.json'))!;
}

async function killSupervisor(): Promise<ProcessId[]> {
  const old = Object.values(processes()).map(({ pid }) => identify(pid));
  const killed = supervisor();
  process.kill(killed.pid, 'SIGKILL');
  await eventually('it is dead', async () => !isAlive(killed));
  return old.filter((id) => id !== undefined);
}
