// The whole stack with Kafka between the outbox and the books: `BUS=kafka make up`, and back to Redis.
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { kafkaAnswers } from '../../shared/events/kafka.ts';
import { learnContract } from '../helpers/contract.ts';
import { totalOf } from '../helpers/customers.ts';
import { decided, eventually, once, request, type Answer } from '../helpers/world.ts';
import { checkout, openHome, readEnvFile } from '../../apps/stack/process/home.ts';
import { readJson } from '../../apps/stack/process/files.ts';
import { kafkaLogin } from '../../apps/stack/servers/kafka.ts';
import { countEvents, mayHoldEvents } from '../../apps/stack/servers/kafka-backlog.ts';
import { freePorts, reservePort } from '../../apps/stack/process/ports.ts';
import { processNames } from '../../apps/stack/servers/programs.ts';

const folder = process.env.TEST_FOLDER ?? '';
const environment = { KEYTALLY_HOME: join(folder, 'home'), KEYTALLY_PORT: '' };
let env: Record<string, string>;
let meter: { key: string; billingId: string };

test.before(async () => {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  let port = 0;
  do [port = 0] = await freePorts(1);
  while (!(await reservePort(port + 1)));
  environment.KEYTALLY_PORT = String(port);
});
test.after(async () => void (await stack('down')));

test('BUS=kafka starts Kafka and the relay too, and usage goes through them', async () => {
  const { code, err } = await stack('up', { BUS: 'kafka' });
  assert.is(code, 0, err);
  assert.equal(Object.keys(processes()).toSorted(), processNames('kafka').toSorted());
  env = readEnvFile(openHome(environment));
  assert.is(env.KAFKA_BROKERS, `127.0.0.1:${processes().kafka?.port}`);
  await Promise.all([learnContract(env.KEYTALLY_API_URL!), learnContract(env.KEYTALLY_VERIFY_URL!)]);
  meter = await newMeter();
  await spend();
  await eventually('the usage is there', async () => (await usage()) === 1);
  await eventually('it went through Kafka and is done', async () => (await countEvents(login())) === 0);
  await eventually('all is well', async () => (await stack('status')).code === 0);
  const stranger = { ...login(), KAFKA_SASL_PASSWORD: 'none' };
  assert.equal([await kafkaAnswers(login()), await kafkaAnswers(stranger)], [true, false]);
  assert.is(await kafkaAnswers({ ...login(), KAFKA_SASL_MECHANISM: '' }), false);
});

test('up with another bus does not change a running stack', async () => {
  const { code, err } = await stack('up', { BUS: 'redis' });
  assert.is(code, 1);
  assert.match(err, /already runs with BUS=kafka: stop it first/);
});

test('the first start on Redis drains Kafka, and the second no longer starts it', async () => {
  // Without a supervisor no consumer is started again, so the next event stays in Kafka.
  const supervisor = readJson<{ pid: number }>(join(environment.KEYTALLY_HOME, 'supervisor.json'));
  process.kill(supervisor!.pid, 'SIGKILL');
  process.kill(processes().consumer!.pid, 'SIGKILL');
  await spend();
  await eventually('it is in Kafka', async () => (await countEvents(login())) === 1);

  const { code, out, err } = await stack('up', { BUS: 'redis' });
  assert.is(code, 0, err);
  assert.match(out, /Kafka still holds 1 usage events/);
  assert.equal(Object.keys(processes()).toSorted(), [...processNames('redis'), 'kafka'].toSorted());
  await spend();
  await eventually('both are there, one from Kafka and one not', async () => (await usage()) === 3);
  await eventually('all is read', async () => (await countEvents(login())) === 0);

  assert.is((await stack('down')).code, 0);
  assert.ok(mayHoldEvents(openHome(environment)));
  assert.is((await stack('up')).code, 0);
  assert.equal(Object.keys(processes()).toSorted(), processNames('redis').toSorted());
  assert.not.ok(mayHoldEvents(openHome(environment)));
  assert.is(await usage(), 3);
});

test.run();

function login() {
  return kafkaLogin(processes().kafka!.port, env.KAFKA_SASL_PASSWORD);
}

async function stack(
  command: string,
  more: NodeJS.ProcessEnv = {},
): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    const given = { env: { ...process.env, ...environment, ...more }, cwd: checkout };
    execFile(process.execPath, ['apps/stack/main.ts', command], given, (error, out, err) => {
      resolve({ code: error ? Number(error.code ?? 1) : 0, out, err });
    });
  });
}

function processes(): Record<string, { pid: number; port: number }> {
  return readJson(join(environment.KEYTALLY_HOME, 'processes.json')) ?? {};
}

async function call(method: string, path: string, body?: unknown) {
  const answer = await ask(method, env.KEYTALLY_API_URL! + path, body);
  assert.ok(answer.status < 300, answer.text);
  return answer.body;
}

function ask(method: string, url: string, body?: unknown): Promise<Answer> {
  const headers = method === 'post' ? once() : {};
  return decided(request(url, method, { token: env.KEYTALLY_TOKEN!, body, headers }));
}

async function newMeter() {
  const { workspace } = await call('post', '/api/v1/workspace', { name: 'kafka' });
  const names = { workspaceId: workspace.id, externalMeterId: 'acme' };
  const { billing } = await call('post', '/api/v1/customer-billing', { ...names, totalCredits: '100' });
  const { apiKey } = await call('post', '/api/v1/api-key', { ...names, name: 'key' });
  return { key: apiKey.key as string, billingId: billing.id as string };
}

async function spend(): Promise<void> {
  const body = { key: meter.key, billing: { usage: '1', usageName: 'n' } };
  const answer = await ask('post', `${env.KEYTALLY_VERIFY_URL}/api/v1/api-key/verify`, body);
  assert.is(answer.body.status, 'VALID', answer.text);
}

async function usage(): Promise<number> {
  const { data } = await call('get', `/api/v1/usage/${meter.billingId}`);
  return Number(totalOf(data));
}
