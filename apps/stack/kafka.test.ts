// The Kafka broker of the stack, and our way to speak to it.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { kafkaVariables, readConfig, type KafkaConfig } from '../../shared/config.ts';
import { connectKafka, type Kafka } from '../../shared/kafka.ts';
import type { Incoming } from '../../shared/kafka-consumer.ts';
import { makeLogger } from '../../shared/log.ts';
import { prepareKafka } from './kafka.ts';
import { soon } from './kafka-testing.ts';
import { freePorts } from './ports.ts';
import { start, untilReady, type Program, type Started } from './program.ts';
import { stopProcess } from './processes.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'kafka');
const log = makeLogger('test', 'error');
const opened: Kafka[] = [];
let broker: Started | undefined;
let secure: { port: number; settings: Record<string, string>; ca: string };

test.before(async () => {
  mkdirSync(folder, { recursive: true });
  secure = await secureListener();
  await startOn(await freePorts(2), ['--add-scram', 'SCRAM-SHA-512=[name=keytally,password=open sesame]']);
});
test.after(async () => {
  await Promise.all(opened.map((kafka) => kafka.close()));
  if (broker) await stopProcess(broker, 'SIGKILL', 5_000);
});

test('topics are made as configured, once, and never by asking for them', async () => {
  const kafka = open({ KAFKA_TOPIC_PREFIX: 'made', KAFKA_TOPIC_PARTITIONS: 5 });
  assert.equal(await kafka.progress(), []);
  const refused = await kafka
    .produce(kafka.topics.usage, [{ key: null, value: 'early' }])
    .catch((error: Error) => error);
  assert.instance(refused, Error);
  await Promise.all([kafka.ensureTopics(), kafka.ensureTopics()]);
  await open({ KAFKA_TOPIC_PREFIX: 'made', KAFKA_TOPIC_PARTITIONS: 7 }).ensureTopics();
  // A broker that has just begun to coordinate groups answers so at first.
  const progress = await soon('the progress', () => kafka.progress().catch(() => undefined));
  assert.is(progress.length, 5, 'a topic that is there stays as it is');
});

test('more records than a request takes all arrive, and a commit is where the next consumer begins', async () => {
  const kafka = open({ KAFKA_TOPIC_PREFIX: 'order' });
  await kafka.ensureTopics();
  // 3 MB of one partition, in one call: more than a broker takes at once.
  const values = Array.from({ length: 3_000 }, (_, i) => `${i} ${'x'.repeat(1_000)}`);
  await kafka.produce(
    kafka.topics.usage,
    values.map((value) => ({ key: 'bill_1', value })),
  );
  const first = consume(kafka);
  await soon('all records', async () => first.records.length >= values.length);
  assert.equal(
    first.records.map(({ value }) => Number(String(value).split(' ')[0])).toSorted((a, b) => a - b),
    values.map((_, i) => i),
  );
  await first.consuming.commit(first.lastOffsets);
  await first.consuming.stop();
  await kafka.produce(kafka.topics.usage, [{ key: 'bill_1', value: 'next' }]);
  const second = consume(kafka);
  await soon('the next record', async () => second.records.length > 0);
  assert.equal(
    second.records.map(({ value }) => String(value)),
    ['next'],
  );
  await second.consuming.stop();
});

test('TLS and SASL: who has the password is served, who has not is not', async () => {
  const settings: Partial<KafkaConfig> = {
    KAFKA_BROKERS: [`localhost:${secure.port}`],
    KAFKA_TLS: true,
    KAFKA_TLS_CA: secure.ca,
    KAFKA_SASL_MECHANISM: 'scram-sha-512',
    KAFKA_SASL_USERNAME: 'keytally',
  };
  const kafka = open({ ...settings, KAFKA_SASL_PASSWORD: 'open sesame', KAFKA_TOPIC_PREFIX: 'secure' });
  await kafka.ensureTopics();
  await kafka.produce(kafka.topics.usage, [{ key: null, value: 'over TLS' }]);
  const { records, consuming } = consume(kafka);
  await soon('a record over TLS', async () => records.length === 1);
  await consuming.stop();
  const wrong = await open({ ...settings, KAFKA_SASL_PASSWORD: 'wrong' })
    .ready()
    .catch((error: Error) => error);
  assert.match(String(wrong), /authentication/i);
  const unknown = await open({ ...settings, KAFKA_TLS_CA: '' })
    .ready()
    .catch((error: Error) => error);
  assert.match(String(unknown), /self.signed/i);
});

test('a broker that starts again, on other ports, has all that it acknowledged', async () => {
  const kafka = open({ KAFKA_TOPIC_PREFIX: 'again' });
  await kafka.ensureTopics();
  await kafka.produce(kafka.topics.usage, [{ key: 'bill_1', value: 'before' }]);
  await stopProcess(broker!, program.stopSignal, program.stopWithinMs);
  assert.instance(await kafka.ready().catch((error: Error) => error), Error);
  await startOn(await freePorts(2));
  const after = open({ KAFKA_TOPIC_PREFIX: 'again' });
  const { records, consuming } = consume(after);
  await soon('the record of before', async () => records.length === 1);
  await consuming.stop();
});

test.run();

let program: Program;

async function startOn([kafka = 0, kafkaController = 0]: number[], formatWith: string[] = []): Promise<void> {
  const plain = `PLAINTEXT://127.0.0.1:${kafka},CONTROLLER://127.0.0.1:${kafkaController}`;
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
  const presets = readConfig(...kafkaVariables);
  const brokers = { KAFKA_BROKERS: [`127.0.0.1:${program.port}`], KAFKA_TOPIC_PARTITIONS: 2 };
  const kafka = connectKafka({ ...presets, ...brokers, ...settings }, 'test', log);
  opened.push(kafka);
  return kafka;
}

function consume(kafka: Kafka) {
  const records: Incoming[] = [];
  const lastOffsets = new Map<number, string>();
  const consuming = kafka.consume({
    async take(fetched) {
      records.push(...fetched.records);
      lastOffsets.set(fetched.partition, fetched.lastOffset);
      return true;
    },
    ended: (error) => assert.unreachable(error.message),
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
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL',
    'sasl.enabled.mechanisms': 'SCRAM-SHA-512',
    'listener.name.secure.scram-sha-512.sasl.jaas.config': login,
    'ssl.keystore.location': store,
    'ssl.keystore.password': password,
    'ssl.keystore.type': 'PKCS12',
  };
  return { port, settings, ca: readFileSync(join(folder, 'ca.pem'), 'utf8') };
}
