// The whole stack with Kafka between the outbox and the books: `BUS=kafka make up`, and back to Redis.
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { kafkaAnswers } from '../../shared/events/kafka.ts';
import { readJson } from '../../apps/stack/process/files.ts';
import { readEnvFile } from '../../apps/stack/process/home.ts';
import { kafkaLogin } from '../../apps/stack/servers/kafka.ts';
import { processNames } from '../../apps/stack/servers/programs.ts';
import { eventually } from '../helpers/eventually.ts';
import { metric } from '../helpers/metric.ts';
import type { TestKey } from '../helpers/customers.ts';
import { makeOwnStack } from '../helpers/own-stack.ts';

let key: TestKey;

const stack = await makeOwnStack(process.env.TEST_FOLDER ?? '');

test('BUS=kafka starts Kafka and the relay too, usage goes through them, and another bus needs another start', async () => {
  await stack.begin({ BUS: 'kafka' });
  assert.equal(Object.keys(stack.processes()).toSorted(), processNames('kafka').toSorted());
  key = await stack.makeKey();
  await stack.verifyTimes(key, 1);
  await eventually('the usage is there', async () => (await stack.usageOf(key)) === '1');
  assert.is(await relayed(), 1, 'it went through Kafka');
  const stranger = { ...login(), KAFKA_SASL_PASSWORD: 'none' };
  assert.equal([await kafkaAnswers(login()), await kafkaAnswers(stranger)], [true, false]);
  const { code, err } = await stack.run('up', undefined, { BUS: 'redis' });
  assert.is(code, 1);
  assert.match(err, /already runs with BUS=kafka, not redis: stop it first/);
});

test('a restore says how much waited in Kafka', async () => {
  const backup = join(process.env.TEST_FOLDER ?? '', 'keytally.backup');
  await stack.must('backup', backup);
  await leaveInKafka();
  await stack.must('down');
  const { out } = await stack.must('restore', backup, { BUS: 'kafka' });
  assert.match(out, /^ {2}up to 1 event of usage that waited in Kafka$/m);
  assert.match(out, /^1 exact, 0 differ/m);
});

test('a start on Redis reads what Kafka still holds', async () => {
  await leaveInKafka();
  const { out } = await stack.must('up', undefined, { BUS: 'redis' });
  assert.match(out, /Kafka runs along, since it may hold usage of a run with BUS=kafka/);
  assert.equal(Object.keys(stack.processes()).toSorted(), [...processNames('redis'), 'kafka'].toSorted());
  await stack.verifyTimes(key, 1);
  await eventually('both are there, one from Kafka and one not', async () => (await stack.usageOf(key)) === '3');
});

/** Leaves one event in Kafka: without a supervisor no consumer is started again. */
async function leaveInKafka(): Promise<void> {
  const before = await relayed();
  const supervisor = readJson<{ pid: number }>(join(stack.home, 'supervisor.json'));
  process.kill(supervisor!.pid, 'SIGKILL');
  process.kill(stack.processes().consumer!.pid, 'SIGKILL');
  await stack.verifyTimes(key, 1);
  await eventually('it is in Kafka', async () => (await relayed()) === before + 1);
}

function relayed(): Promise<number> {
  return metric(`http://127.0.0.1:${stack.processes().relay!.port}`, 'keytally_relayed_events_total');
}

function login() {
  return kafkaLogin(stack.processes().kafka!.port, readEnvFile({ folder: stack.home }).KAFKA_SASL_PASSWORD);
}
