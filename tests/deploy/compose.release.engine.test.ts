// The stack on Docker Compose, on an engine of its own, by the commands of README and docs/deploy.md. tests/deploy/images/Dockerfile says what
// stands in for images that no registry gave.
import { appendFileSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from '../../apps/stack/process/home.ts';
import { readComposeFile } from '../compose/helpers/compose-file.ts';
import { patiently, startEngine } from './helpers/engine.ts';
import { makeBaseImages } from './helpers/images.ts';
import { makeComposeStack, type Customer } from './helpers/stack.ts';

const folder = process.env.TEST_FOLDER ?? '';
const file = readComposeFile();
const services = Object.keys(file.services);
const ours = ['api', 'verify', 'relay', 'consumer', 'webhooks'];

const engine = await startEngine(folder);
await makeBaseImages(engine, folder);
const stack = await makeComposeStack(engine, join(folder, 'checkout'));
let customer: Customer;

test('make up builds the image, starts every container, and Compose warns of nothing', async () => {
  const { code, out, err } = await stack.make('up');
  assert.is(code, 0, err);
  await stack.healthy();
  assert.is((await stack.state('migrate')).Status, 'exited');
  assert.match(out, `console  http://127.0.0.1:${stack.port}/console`);
  const config = await stack.run('docker', ['compose', '--profile', 'monitoring', 'config', '--quiet']);
  assert.equal(config, { code: 0, out: '', err: '' });
  customer = await stack.customer();
});

test("the README's first key is valid, and its usage arrives", async () => {
  const [, lines = ''] =
    /^\. \.keytally\/env\n([^]*?)```/m.exec(readFileSync(join(checkout, 'README.md'), 'utf8')) ?? [];
  const { out, err } = await stack.run('bash', ['-ec', `. secrets/env\n${lines}`]);
  assert.match(out, /^\{"status":"VALID",.*"usedCredits":"0.25"/, err);
  await stack.under(customer, async () => {});
  await stack.proven(customer);
});

test('make demo shows right books, also with a history', async () => {
  for (const history of [[], ['HISTORY=0']])
    assert.match(await stack.must('demo', ...history), /^0 calls were answered otherwise[^]*^The books are right/m);
});

test("an operator's commands work", async () => {
  assert.match(await stack.must('status'), /-verify-1 .*\(healthy\)/);
  assert.match(await stack.must('token', 'TEAM=acme'), /^kt_\w+\n$/);
  assert.match(await stack.must('quota', 'TEAM=acme', 'SET=keys=7'), /^keys +0 of 7$/m);
  assert.match(await stack.must('revoke-team', 'TEAM=acme'), /everything of acme is revoked/);
  assert.match(await stack.must('migrate'), 'the schemas are up to date');
  assert.match(await stack.must('rebuild'), /^Redis is rebuilt: 64 shards/m);
  assert.match(await stack.must('audit-log-verify'), /as they were written, 0 /);
  const follow = `exec 3< <(exec make -s logs NAME=api 2>/dev/null); grep -m1 '"msg":"request"' <&3; kill $!`;
  assert.match((await stack.run('bash', ['-c', follow])).out, /^api-1 /);
  await stack.proven(customer);
});

test('no secret stands in what the engine tells of a container, in its arguments, or in a log', async () => {
  const names = services.filter((name) => name !== 'migrate');
  const secrets = Object.keys(file.secrets).map((name) =>
    readFileSync(join(stack.folder, 'secrets', name), 'utf8').trim(),
  );
  secrets.push(stack.address('TOKEN'), customer.key, ...secrets.map((text) => /:([^:@]+)@/.exec(text)?.[1] ?? text));
  await stack.must('monitor');
  const told = await engine.docker('inspect', ...(await engine.lines('ps', '-aq')));
  const processes = await Promise.all(
    names.map(async (name) => engine.docker('top', await stack.container(name), '-o', 'pid,args')),
  );
  const logs = await stack.compose('--profile', 'monitoring', 'logs', '--no-color');
  for (const text of [told, ...processes, logs]) for (const secret of secrets) assert.not.ok(text.includes(secret));
  assert.not.match(logs, /read-only file system|operation not permitted|permission denied/i);
  assert.is(statSync(join(stack.folder, 'secrets')).mode & 0o777, 0o700);
});

test('make monitor asks each program, and no rule of its alerts fails', async () => {
  const ask = async (path: string) => {
    const inPrometheus = ['--profile', 'monitoring', 'exec', '-T', 'prometheus'];
    return JSON.parse(await stack.compose(...inPrometheus, 'wget', '-qO-', `http://127.0.0.1:9090/api/v1/${path}`))
      .data;
  };
  const isUp = ({ health }: { health: string }) => health === 'up';
  const asked = async () => (await ask('targets')).activeTargets.filter(isUp);
  await patiently('all are asked', async () => (await asked()).length === ours.length);
  const rules = (await ask('rules')).groups.flatMap((group: { rules: { health: string }[] }) => group.rules);
  assert.ok(rules.length > 20 && rules.every(({ health }: { health: string }) => health !== 'err'));
});

test('verify keeps its port when its container starts again, and four of it share a range', async () => {
  const port = async () => stack.compose('port', 'verify', '8081');
  const before = await port();
  for (let i = 0; i < 2; i++) {
    await stack.compose('restart', 'verify');
    assert.is(await port(), before);
  }
  const scaled = { KEYTALLY_VERIFY_PORTS: `${stack.port + 1}-${stack.port + 4}` };
  const { code, err } = await stack.run('docker', ['compose', 'up', '-d', '--scale', 'verify=4'], scaled);
  assert.is(code, 0, err);
  await patiently('four are healthy', async () => {
    const { out } = await stack.run('docker', ['compose', 'ps', '--format', '{{.Health}}', 'verify']);
    return out === 'healthy\n'.repeat(4);
  });
});

test('a backup is restored beside the stack, and never over it', async () => {
  const refused = async (command: string, why: RegExp) =>
    assert.match((await stack.make(command, 'FILE=a.backup')).err, why);
  await stack.must('backup', 'FILE=a.backup');
  await refused('backup', /^keytally: a\.backup is there already/);
  await refused('restore', /^keytally: the stack runs: stop it/);
  await stack.must('down');
  await refused('restore', /^keytally: the volumes of the project keytally hold a stack/);
  stack.env.COMPOSE_PROJECT_NAME = 'restored';
  assert.match(await stack.must('restore', 'FILE=a.backup'), /^\d+ exact, 0 differ, 0 undecided/m);
  await stack.proven(customer);
  await stack.compose('down', '--volumes');
  delete stack.env.COMPOSE_PROJECT_NAME;
});

test('down keeps the data, and up has it again under the same token, with monitoring, and with the files of a new version', async () => {
  const token = stack.address('TOKEN');
  await stack.must('up');
  assert.is(stack.address('TOKEN'), token);
  const ids = async () => (await stack.compose('ps', '-q', 'redis', 'kafka', 'prometheus')).split('\n');
  const before = await ids();
  assert.is(before.length, 3, 'monitoring is there again');
  appendFileSync(join(stack.folder, 'deploy/redis.conf'), '# of a new version\n');
  await stack.must('up');
  assert.is((await ids()).filter((one) => before.includes(one)).length, 2, 'Redis is another one, with the new file');
  await stack.under(customer, async () => {});
  await stack.proven(customer);
});
