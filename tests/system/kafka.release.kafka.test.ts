// The Kafka broker of the stack, and our client for it.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import kafkajs, { Kafka as Client, logLevel, type AclOperationTypes, type AclResourceTypes } from 'kafkajs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { succeeds } from '../../shared/runtime/succeeds.ts';
import { readConfig } from '../../shared/runtime/config.ts';
import { groups, type KafkaConfig } from '../../shared/runtime/variables.ts';
import { connectKafka, type Kafka } from '../../shared/events/kafka.ts';
import type { Incoming } from '../../shared/events/kafka-consumer.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { prepareKafka } from '../../apps/stack/servers/kafka.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { start, untilReady, type Program, type Started } from '../../apps/stack/process/program.ts';
import { stopProcess } from '../../apps/stack/process/processes.ts';
import { eventually } from '../helpers/eventually.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'kafka');
const log = makeLogger('test', 'error');
const opened: Kafka[] = [];
let broker: Started | undefined;
let program: Program;

mkdirSync(folder, { recursive: true });
const secure = await secureListener();
const login = (name: string) => ['--add-scram', `SCRAM-SHA-512=[name=${name},password=open sesame]`];
await startOn(await freePorts(2), ['keytally', 'relay', 'consumer'].flatMap(login));
test.after(async () => {
  await Promise.all(opened.map((kafka) => kafka.close()));
  if (broker) await stopProcess(broker, 'SIGKILL', 5_000);
});

test('more records than fit a request all arrive, whatever bytes they take, and the next consumer begins at the commit', async () => {
  const kafka = open({ KAFKA_TOPIC_PREFIX: 'bytes' });
  await kafka.ensureTopics();
  // For one partition: 650 records of 3 KB, and one of 1 MB, more than a broker accepts at once.
  const long = Array.from({ length: 650 }, (_, i) => `${i} ${'語'.repeat(1_000)}`);
  const values = [...long, 'x'.repeat(1_000_000), 'last'];
  const records = values.map((value) => ({ key: 'bill_1', value, headers: { reason: '理由'.repeat(100) } }));
  await kafka.produce(kafka.topics.usage, records);
  const first = consume(kafka);
  await eventually('all records', async () => textsOf(first.records).length >= values.length);
  assert.equal(textsOf(first.records), values.toSorted());
  await first.consuming.commit(first.lastOffsets);
  await first.consuming.stop();
  await kafka.produce(kafka.topics.usage, [{ key: 'bill_1', value: 'next' }]);
  const second = consume(kafka);
  await eventually('the next record', async () => textsOf(second.records).includes('next'));
  assert.ok(second.records.length < values.length, 'they do not come again');
  await second.consuming.stop();
});

test('over TLS and SASL relay and consumer need no more rights than docs/security.md names; others are not served', async () => {
  const owner = open({ KAFKA_TOPIC_PREFIX: 'rights' });
  await owner.ensureTopics();
  const { usage, dead } = owner.topics;
  const admin = new Client({ brokers: [`127.0.0.1:${program.port}`], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  const { TOPIC, GROUP } = kafkajs.AclResourceTypes;
  const { READ, WRITE, DESCRIBE } = kafkajs.AclOperationTypes;
  const allow = (user: string, resourceType: AclResourceTypes, resourceName: string, operation: AclOperationTypes) => ({
    principal: `User:${user}`,
    host: '*',
    permissionType: kafkajs.AclPermissionTypes.ALLOW,
    resourceType,
    resourceName,
    resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
    operation,
  });
  const acl = [
    allow('relay', TOPIC, usage, WRITE),
    allow('relay', TOPIC, dead, DESCRIBE),
    allow('consumer', TOPIC, usage, READ),
    allow('consumer', TOPIC, dead, WRITE),
    allow('consumer', GROUP, 'rights.books', READ),
  ];
  await admin.createAcls({ acl });
  await admin.disconnect();
  const as = (KAFKA_SASL_USERNAME: string) =>
    open({ ...overTls(), KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD: 'open sesame', KAFKA_TOPIC_PREFIX: 'rights' });
  const [relay, consumer] = [as('relay'), as('consumer')];

  const event = [{ key: null, value: 'event' }];
  // A broker answers before it has put the rights into force.
  await eventually('the relay may produce', () =>
    succeeds(relay.ensureTopics().then(() => relay.produce(usage, event))),
  );
  assert.ok(await relay.ready());
  await consumer.ensureTopics();
  const reading = consume(consumer);
  await eventually('the event', async () => reading.records.length > 0);
  await reading.consuming.commit(reading.lastOffsets);
  await consumer.produce(dead, event);
  const [committed] = (await consumer.progress()).filter((one) => one.end > 0);
  assert.ok(committed!.committed > 0);
  await reading.consuming.stop();

  const login = { ...overTls(), KAFKA_SASL_USERNAME: 'relay' };
  for (const [why, wrong] of [
    [/authentication/i, open({ ...login, KAFKA_SASL_PASSWORD: 'wrong' })],
    [/self.signed/i, open({ ...login, KAFKA_TLS_CA: '' })],
  ] as const)
    // A busy broker may not say so in time.
    await eventually(`it is refused: ${why}`, async () =>
      why.test(String(await wrong.ready().catch((error: Error) => error))),
    );
  for (const [what, refused] of [
    ['the relay sets nothing aside', () => relay.produce(dead, event)],
    ['the consumer makes no events', () => consumer.produce(usage, event)],
    ['the consumer makes no topics', () => as('consumer').produce('another', event)],
  ] as const) {
    const answer = await refused().then(
      () => 'done',
      (error: Error) => String(error),
    );
    assert.match(answer, /not authorized|authorization|does not host this topic/i, what);
  }
});

async function startOn([kafka = 0, kafkaController = 0]: number[], formatWith: string[] = []): Promise<void> {
  const plain = `BROKER://127.0.0.1:${kafka},CONTROLLER://127.0.0.1:${kafkaController}`;
  const settings = { ...secure.settings, listeners: `${plain},SECURE://127.0.0.1:${secure.port}` };
  program = await prepareKafka({
    folder: join(folder, 'broker'),
    ports: { kafka, kafkaController },
    settings,
    formatWith,
  });
  const logFile = join(folder, 'log');
  broker = await start(program, logFile);
  await untilReady(program, broker, logFile);
}

function open(settings: Partial<KafkaConfig>): Kafka {
  const presets = readConfig(groups.kafka);
  const brokers = { KAFKA_BROKERS: [`127.0.0.1:${program.port}`], KAFKA_TOPIC_PARTITIONS: 2 };
  const kafka = connectKafka({ ...presets, ...brokers, ...settings }, 'test', log);
  opened.push(kafka);
  return kafka;
}

function overTls(): Partial<KafkaConfig> {
  const KAFKA_BROKERS = [`localhost:${secure.port}`];
  return { KAFKA_BROKERS, KAFKA_TLS: true, KAFKA_TLS_CA: secure.ca, KAFKA_SASL_MECHANISM: 'scram-sha-512' };
}

/** The different texts of records: on a busy machine one may have come more than once. */
function textsOf(records: Incoming[]): string[] {
  return [...new Set(records.map(({ value }) => String(value)))].toSorted();
}

function consume(kafka: Kafka) {
  const records: Incoming[] = [];
  const lastOffsets = new Map<number, string>();
  const consuming = kafka.consume(async (fetched) => {
    records.push(...fetched.records);
    lastOffsets.set(fetched.partition, fetched.lastOffset);
    return true;
  });
  return { records, lastOffsets, consuming };
}

/** A listener with a certificate of its own and a login, made with the tool that every Java brings. */
async function secureListener() {
  const [port = 0] = await freePorts(1);
  const [store, password] = [join(folder, 'store.p12'), 'changeit'];
  const keytool = (...args: string[]) => promisify(execFile)('keytool', args);
  const access = ['-keystore', store, '-storepass', password, '-alias', 'kafka'];
  const names = ['-dname', 'CN=localhost', '-ext', 'san=dns:localhost,ip:127.0.0.1'];
  await keytool('-genkeypair', '-keyalg', 'EC', ...access, ...names, '-validity', '2', '-storetype', 'PKCS12');
  await keytool('-exportcert', '-rfc', ...access, '-file', join(folder, 'ca.pem'));
  const login = 'org.apache.kafka.common.security.scram.ScramLoginModule required;';
  const settings = {
    'listener.security.protocol.map': 'BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL',
    'sasl.enabled.mechanisms': 'SCRAM-SHA-512',
    'listener.name.secure.scram-sha-512.sasl.jaas.config': login,
    'ssl.keystore.location': store,
    'ssl.keystore.password': password,
    'ssl.keystore.type': 'PKCS12',
    // Only this test connects without a login.
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:ANONYMOUS;User:keytally',
  };
  return { port, settings, ca: readFileSync(join(folder, 'ca.pem'), 'utf8') };
}
