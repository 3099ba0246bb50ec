// The whole stack as `make up` starts it: real servers and the three programs, in a home and on ports of its own.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { readJson } from '../../apps/stack/process/files.ts';
import { freePorts, reservePort } from '../../apps/stack/process/ports.ts';
import { identify, isAlive, type ProcessId } from '../../apps/stack/process/processes.ts';
import { startCoreClock } from '../helpers/core-clock.ts';
import { eventually } from '../helpers/eventually.ts';

const names = ['postgres', 'redis', 'clickhouse', 'api', 'verify', 'consumer', 'webhooks'];
const RUNS_AGAIN_WITHIN_MS = 2_000;
const TRIES = 5;
const folder = process.env.TEST_FOLDER ?? '';
const home = join(folder, 'home');
let port: number;

test.before(async () => {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  do [port = 0] = await freePorts(1);
  while (!(await reservePort(port + 1)));
});
test.after(async () => void (await stack('down')));

test('up starts everything, and what it prints works when pasted', async () => {
  const { code, out, err } = await stack('up');
  assert.is(code, 0, err);
  assert.equal(Object.keys(processes()).toSorted(), names.toSorted());
  assert.ok(Object.values(processes()).every(({ pid }) => identify(pid)));
  assert.is(processes().api?.port, port);
  assert.is(processes().verify?.port, port + 1);

  const lines = out.split('\n').filter((line) => line.includes('curl'));
  assert.is(lines.length, 3);
  // A busy machine may miss verify's deadline of 250 ms.
  const [workspace, key, decision] = await eventually('it is decided', async () => {
    const printed = (await run('sh', ['-c', lines.join('\n')])).out.trim().split('\n');
    return printed[2]?.includes('"status"') ? printed : undefined;
  });
  assert.match(workspace ?? '', /^\{"workspace":\{.*"name":"demo"/);
  assert.match(key ?? '', /^\{"apiKey":\{/);
  assert.match(decision ?? '', /"status":"VALID"/);
  const [, pages = ''] = /^ {2}console {2}(\S+)$/m.exec(out) ?? [];
  assert.match(await (await fetch(pages)).text(), /<title>keytally<\/title>/);
});

test('where cores are scarce verify, Redis and what carries events go before all others, also within sessions', async () => {
  const yielding = ['api', 'clickhouse', 'postgres', 'webhooks'];
  for (const [name, { pid }] of Object.entries(processes())) {
    const by = yielding.includes(name) ? 5 : 0;
    assert.is(getPriority(pid), getPriority() + by, name);
    const session = `/proc/${pid}/autogroup`;
    if (existsSync(session)) assert.match(readFileSync(session, 'utf8'), new RegExp(`nice ${by}$`, 'm'), name);
  }
});

test('the env file is readable by its owner alone, and a shell reads all addresses from it', async () => {
  assert.is(statSync(join(home, 'env')).mode & 0o777, 0o600);
  const wanted = [
    'KEYTALLY_API_URL',
    'KEYTALLY_VERIFY_URL',
    'KEYTALLY_TOKEN',
    'DATABASE_URL',
    'REDIS_URL',
    'CLICKHOUSE_URL',
  ];
  const { out } = await run('sh', ['-c', `set -a; . '${home}/env'; env`]);
  for (const name of wanted) assert.match(out, new RegExp(`^${name}=.+$`, 'm'));
  assert.match(out, new RegExp(`^KEYTALLY_API_URL=http://127.0.0.1:${port}$`, 'm'));
});

test('another user of the machine reads and writes nothing in the servers, and finds no password in a process list', async () => {
  const servers = processes();
  const redis = connect(servers.redis!.port, '127.0.0.1');
  redis.end('DBSIZE\r\n');
  assert.match(await text(redis), /^-NOAUTH/);
  const body = "select * from file('/etc/passwd', 'LineAsString')";
  const books = await fetch(`http://127.0.0.1:${servers.clickhouse!.port}/`, { method: 'POST', body });
  assert.is(books.status, 403);
  const { out: env } = await run('sh', ['-c', `set -a; . '${home}/env'; env`]);
  const passwords = [...env.matchAll(/^(?:DATABASE|REDIS|CLICKHOUSE)_URL=\w+:\/\/\w*:(.+)@/gm)].map(
    ([, password]) => password!,
  );
  assert.is(passwords.length, 3);
  const lists = [supervisor(), ...Object.values(servers)].map(({ pid }) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8'),
  );
  for (const password of passwords) assert.not.match(lists.join('\n'), password);
});

test('a second up finds the stack running, changes nothing and prints the same', async () => {
  const before = processes();
  const { code, out } = await stack('up');
  assert.is(code, 0);
  assert.match(out, /already running/);
  assert.is(out.split('\n').filter((line) => line.includes('curl')).length, 3);
  assert.equal(processes(), before);
});

test('each killed process runs again within 2 seconds on its port', async () => {
  let took = Infinity;
  // A busy machine may take longer now and then.
  for (let tries = 0; tries < TRIES && took >= RUNS_AGAIN_WITHIN_MS; tries++) {
    const before = processes();
    assert.equal(Object.keys(before).toSorted(), names.toSorted());
    for (const { pid } of Object.values(before)) process.kill(pid, 'SIGKILL');
    const elapsedMs = startCoreClock([supervisor().pid]);
    const runsAgain = (name: string) => processes()[name] && processes()[name]?.pid !== before[name]?.pid;
    while (!names.every(runsAgain)) await sleep(20);
    took = elapsedMs();
    for (const name of names) assert.is(processes()[name]?.port, before[name]?.port);
    assert.is((await stack('up')).code, 0, 'everything gets ready again');
    await eventually('all is well', async () => (await stack('status')).code === 0);
  }
  assert.ok(took < RUNS_AGAIN_WITHIN_MS, `${took} ms`);
});

test('up names a home or a port that is taken in one line', async () => {
  const otherPort = await stack('up', { KEYTALLY_PORT: String(port + 7) });
  assert.is(otherPort.code, 1);
  assert.match(otherPort.err, /^keytally: the stack in .* already runs on port \d+, not \d+: .*\n$/);
  const samePort = await stack('up', { KEYTALLY_HOME: join(folder, 'other') });
  assert.is(samePort.code, 1);
  assert.match(samePort.err, /^keytally: port \d+ for api is in use; .*\n$/);
  assert.equal(processes(join(folder, 'other')), {});
});

test('after the supervisor was killed, up takes the stack over and loses nothing', async () => {
  const token = await envValue('KEYTALLY_TOKEN');
  const old = await killSupervisor();
  assert.is((await stack('status')).code, 1);
  assert.is((await stack('up')).code, 0);
  assert.not.ok(old.some(isAlive), 'up stopped what the killed supervisor had started');
  assert.is(await envValue('KEYTALLY_TOKEN'), token);
  const workspaces = await fetch(`http://127.0.0.1:${port}/api/v1/workspace`, {
    headers: { authorization: `Bearer ${token}` },
  });
  assert.match(await workspaces.text(), /"name":"demo"/);
});

test('down stops everything, also without a supervisor, and succeeds when nothing runs', async () => {
  const old = await killSupervisor();
  const { code, err } = await stack('down');
  assert.is(code, 0, err);
  assert.not.ok(old.some(isAlive));
  assert.equal(processes(), {});
  assert.is((await stack('down')).code, 0);
  assert.is((await stack('logs')).code, 0, 'the logs of a stopped stack end');
});

test('up without KEYTALLY_PORT comes back on the last ports, and says in one line when another port is named', async () => {
  const again = await stack('up', { KEYTALLY_PORT: undefined });
  assert.is(again.code, 0, again.err);
  assert.match(again.out, /^starting keytally on this machine, /m);
  assert.not.match(again.out, /the ports change/);
  assert.equal([processes().api?.port, processes().verify?.port], [port, port + 1]);
  assert.is((await stack('down')).code, 0);

  let other: number;
  do [other = 0] = await freePorts(1, [port, port + 1]);
  while (!(await reservePort(other + 1)));
  const { code, out, err } = await stack('up', { KEYTALLY_PORT: String(other) });
  assert.is(code, 0, err);
  assert.match(out, new RegExp(`^the ports change: the api moves from ${port} to ${other}, verify from .*$`, 'm'));
  assert.is(processes().api?.port, other);
  assert.is((await stack('down')).code, 0);
});

test('up names the variables that it does not take, and takes the public URLs', async () => {
  const publicUrls = { PUBLIC_API_URL: 'https://api.example.com', PUBLIC_VERIFY_URL: 'https://verify.example.com' };
  const { code, err } = await stack('up', { ...publicUrls, MASTER_KEY_COMMAND: 'exit 1', HOST: '192.0.2.1' });
  assert.is(code, 0, err);
  assert.match(
    err,
    /^keytally: the stack of one machine decides these itself.*: (MASTER_KEY_COMMAND, HOST|HOST, MASTER_KEY_COMMAND) /,
  );
  const document = (await (await fetch(`http://127.0.0.1:${port}/openapi.json`)).json()) as {
    servers: { url: string }[];
  };
  assert.equal(
    document.servers.map(({ url }) => url),
    Object.values(publicUrls),
  );
  assert.is((await stack('down')).code, 0);
});

test('a master key that takes the place of another encrypts all again, and then needs the old one no more', async () => {
  const file = join(home, 'master.key');
  const old = `${home}.master.key.old`;
  renameSync(file, old);
  writeFileSync(file, randomBytes(32).toString('base64'), { mode: 0o600 });
  assert.is((await stack('up', { MASTER_KEY_PREVIOUS_FILE: old })).code, 0);
  await eventually('the log opens with the new key alone', async () => (await stack('audit-log-verify')).code === 0);
  assert.is((await stack('down')).code, 0);
  assert.is((await stack('up')).code, 0);
  const { code, err } = await stack('audit-log-verify');
  assert.is(code, 0, err);
  assert.is((await stack('down')).code, 0);
});

test('a start that cannot succeed gives the reason in one line and leaves nothing running', async () => {
  const listener = createServer().listen(port + 1, '127.0.0.1');
  const { code, err } = await stack('up');
  listener.close();
  assert.is(code, 1);
  assert.match(err, /^keytally: port \d+ for verify is in use; .*\n$/);
  assert.equal(processes(), {});
});

test.run();

interface Result {
  code: number;
  out: string;
  err: string;
}

function run(command: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Result> {
  return new Promise((resolve) => {
    execFile(command, args, { cwd: checkout, env: { ...process.env, ...env } }, (error, out, err) => {
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err });
    });
  });
}

function stack(command: string, env: NodeJS.ProcessEnv = {}): Promise<Result> {
  return run(process.execPath, ['apps/stack/main.ts', command], {
    KEYTALLY_HOME: home,
    KEYTALLY_PORT: String(port),
    ...env,
  });
}

function processes(folderOf = home): Record<string, { pid: number; port: number }> {
  return readJson(join(folderOf, 'processes.json')) ?? {};
}

async function envValue(name: string): Promise<string> {
  return (await run('sh', ['-c', `. '${home}/env'; printf %s "$${name}"`])).out;
}

function supervisor(): ProcessId {
  return JSON.parse(readFileSync(join(home, 'supervisor.json'), 'utf8')) as ProcessId;
}

async function killSupervisor(): Promise<ProcessId[]> {
  const old = Object.values(processes()).map(({ pid }) => identify(pid));
  const killed = supervisor();
  process.kill(killed.pid, 'SIGKILL');
  while (isAlive(killed)) await sleep(10);
  assert.is(old.length, names.length);
  return old.filter((id) => id !== undefined);
}
