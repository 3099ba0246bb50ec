// Runs the command and the health command that docker-compose.yml has for Kafka, with the logins of its secrets.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectKafka } from '../../shared/events/kafka.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import type { KafkaConfig } from '../../shared/runtime/programs.ts';
import { eventually } from '../helpers/eventually.ts';
import { interpolate, ourServices, readComposeFile } from './helpers/compose-file.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { ensureJava } from '../../apps/stack/servers/java.ts';
import { ensureKafkaJars } from '../../apps/stack/servers/kafka-jars.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'kafka');
const file = readComposeFile();
const { command = [], environment = {}, healthcheck } = file.services.kafka!;
const [port = 0, controllerPort = 0] = await freePorts(2);
const passwords = { broker: 'a1b2c3d4e5f6a7b8', relay: 'b1b2c3d4e5f6a7b8', consumer: 'c1b2c3d4e5f6a7b8' };
const log = makeLogger('test', 'silent');

// The container's paths, names and ports, mapped to those of this machine.
const here = (text: string) =>
  interpolate(text)
    .replace(/\/(?:run\/secrets|etc\/keytally|(tmp)|opt\/kafka\/(bin))\//g, (_, tmp?: string, bin?: string) =>
      tmp ? `${folder}/tmp-` : bin ? `${folder}/bin-` : `${folder}/`,
    )
    .replaceAll('kafka:9092', `127.0.0.1:${port}`);
const isWell = () =>
  promisify(execFile)('sh', ['-c', here(healthcheck?.test?.[1] ?? '')]).then(
    () => true,
    () => false,
  );

test.before(async () => {
  mkdirSync(folder, { recursive: true });
  const java = await ensureJava(() => {});
  const classes = join(await ensureKafkaJars(() => {}), '*');
  const tool = (name: string, text: string) => {
    writeFileSync(join(folder, `bin-${name}.sh`), `#!/bin/sh\n${text}\n`);
    chmodSync(join(folder, `bin-${name}.sh`), 0o755);
  };
  tool('kafka-storage', `exec '${java}' -Xmx128m -cp '${classes}' kafka.tools.StorageTool "$@"`);
  tool('kafka-server-start', `exec '${java}' -Xmx512m -cp '${classes}' kafka.Kafka "$@"`);
  // What this machine has of Kafka lacks this tool: it logs in as the file says, and lists the topics.
  const lister = join(folder, 'topics.mjs');
  writeFileSync(
    lister,
    `import { readFileSync } from 'node:fs';
     import kafkajs from ${JSON.stringify(join(checkout, 'node_modules/kafkajs/index.js'))};
     const [, broker, , file] = process.argv.slice(2);
     const [, username, password] = /username="(.*?)" password="(.*?)"/.exec(readFileSync(file, 'utf8'));
     const sasl = { mechanism: 'plain', username, password };
     const admin = new kafkajs.Kafka({ brokers: [broker], sasl, logLevel: 0, retry: { retries: 0 } }).admin();
     await admin.connect().then(() => admin.listTopics()).then(() => process.exit(0), () => process.exit(1));`,
  );
  tool('kafka-topics', `exec '${process.execPath}' '${lister}' "$@"`);
  const settings = readFileSync(join(checkout, 'deploy/kafka/server.properties'), 'utf8');
  writeFileSync(
    join(folder, 'server.properties'),
    settings
      .replaceAll('://kafka:', '://127.0.0.1:')
      .replaceAll('servers=kafka:', 'servers=127.0.0.1:')
      .replaceAll('://:', '://127.0.0.1:')
      .replaceAll(':9092', `:${port}`)
      .replaceAll(':9093', `:${controllerPort}`)
      .replace(/^log\.dirs=.*$/m, `log.dirs=${join(folder, 'data')}`),
  );
  for (const [user, password] of Object.entries(passwords))
    writeFileSync(join(folder, `kafka_${user}_password`), `${password}\n`);
  cpSync(join(checkout, 'deploy/kafka/log4j2.yaml'), join(folder, 'log4j2.yaml'));
});

test('Kafka serves relay and consumer with their logins, and nobody without one', async () => {
  const [shell = '', ...args] = command.map(here);
  const env = { PATH: process.env.PATH, CLUSTER_ID: String(environment.CLUSTER_ID) };
  const server = spawn(shell, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = once(server, 'exit');
  try {
    await eventually('Kafka is healthy', isWell);
    for (const name of ['server', 'client'])
      assert.is(statSync(join(folder, `tmp-${name}.properties`)).mode & 0o777, 0o600);
    for (const program of ['relay', 'consumer'] as const) {
      const given = ourServices(file).find(([name]) => name === program)![1].environment!;
      assert.is(given.KAFKA_SASL_PASSWORD_FILE, `/run/secrets/kafka_${program}_password`);
      const login = {
        KAFKA_SASL_MECHANISM: given.KAFKA_SASL_MECHANISM as 'plain',
        KAFKA_SASL_USERNAME: String(given.KAFKA_SASL_USERNAME),
        KAFKA_SASL_PASSWORD: passwords[program],
      };
      await eventually(`${program} is served`, () => isServed(login));
      assert.is(await isServed({ ...login, KAFKA_SASL_PASSWORD: passwords.broker }), false, 'a wrong password');
      assert.is(await isServed({ ...login, KAFKA_SASL_MECHANISM: '' }), false, 'no login');
    }
  } finally {
    server.kill('SIGTERM');
  }
  await ended;
  assert.not.ok(await isWell());
});

async function isServed(login: Partial<KafkaConfig>): Promise<boolean> {
  const config: KafkaConfig = {
    KAFKA_BROKERS: [`127.0.0.1:${port}`],
    KAFKA_TLS: false,
    KAFKA_TLS_CA: '',
    KAFKA_SASL_MECHANISM: '',
    KAFKA_SASL_USERNAME: '',
    KAFKA_SASL_PASSWORD: '',
    KAFKA_TOPIC_PREFIX: 'keytally',
    KAFKA_TOPIC_PARTITIONS: 1,
    KAFKA_TOPIC_RETENTION_HOURS: 1,
    KAFKA_TOPIC_REPLICATION: 1,
    ...login,
  };
  const kafka = connectKafka(config, 'test', log);
  return kafka
    .ready()
    .then(
      () => true,
      () => false,
    )
    .finally(() => kafka.close());
}
