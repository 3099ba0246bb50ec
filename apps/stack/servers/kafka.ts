import { randomBytes } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { kafkaAnswers } from '../../../shared/events/kafka.ts';
import type { KafkaLogin } from '../../../shared/runtime/variables.ts';
import { runToEnd } from '../process/errors.ts';
import { replaceFile } from '../process/files.ts';
import { checkout, type Home, keepPassword } from '../process/home.ts';
import { ensureKafkaJars } from './kafka-jars.ts';
import { ensureProgram } from './packages.ts';
import type { Program } from '../process/program.ts';

interface Options {
  folder: string;
  ports: { kafka: number; kafkaController: number };
  /** Without one, everybody on the machine may write events. */
  password?: string;
  /** More lines of server.properties, and more arguments of the command that formats the data folder. */
  settings?: Record<string, string>;
  formatWith?: string[];
  say?: (line: string) => void;
}

/** A Kafka broker that is its own controller (KRaft), on its data folder, which the first use makes. */
export async function prepareKafka(options: Options): Promise<Program> {
  const { folder, ports, password, settings, formatWith = [], say = () => {} } = options;
  const java = await ensureJava(say);
  const classes = join(await ensureKafkaJars(say), '*');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const data = join(folder, 'data');
  const properties = join(folder, 'server.properties');
  const write = (dataFolder: string) =>
    replaceFile(properties, serverProperties(ports, password, { ...settings, 'log.dirs': dataFolder }));
  if (!existsSync(data)) {
    // Formatted under another name and then renamed, so that a half-formatted folder is never used.
    const fresh = `${data}.new`;
    rmSync(fresh, { recursive: true, force: true });
    write(fresh);
    await format({ java, classes, properties, formatWith });
    renameSync(fresh, data);
  }
  write(data);
  return {
    name: 'kafka',
    port: ports.kafka,
    command: java,
    args: ['-Xmx512m', ...javaOptions, '-cp', classes, 'kafka.Kafka', properties],
    env: { PATH: process.env.PATH, TZ: 'UTC' },
    isReady: () => kafkaAnswers(kafkaLogin(ports.kafka, password)),
  };
}

/** Whether the stack in a home has a Kafka, which may hold usage that is in no books yet. */
export function hasKafka(home: Home): boolean {
  return existsSync(join(home.folder, 'kafka/data'));
}

/** The Kafka of the stack in a home, and how to connect to it. */
export async function kafkaOf(home: Home, ports: Options['ports'], say = (_line: string) => {}) {
  const password = keepPassword(join(home.folder, 'kafka-password'));
  const program = await prepareKafka({ folder: join(home.folder, 'kafka'), ports, password, say });
  return { program, login: kafkaLogin(ports.kafka, password) };
}

// The oldest that runs a Kafka 4 broker.
const OLDEST_JAVA = 17;

function ensureJava(say: (line: string) => void): Promise<string> {
  const { JAVA_HOME } = process.env;
  return ensureProgram(
    {
      what: 'a Java runtime',
      // The Java on the PATH may be older than another one that is installed.
      commands: [...(JAVA_HOME ? [join(JAVA_HOME, 'bin/java')] : []), 'java', ...globSync('/usr/lib/jvm/*/bin/java')],
      version: '-version',
      isNew: (said) => Number(/version "(\d+)/.exec(said)?.[1]) >= OLDEST_JAVA,
      packages: ['openjdk-17-jre-headless', 'openjdk-21-jre-headless', 'default-jre-headless'],
      brew: 'openjdk',
      missing: `Kafka needs Java ${OLDEST_JAVA} or newer, and there is none`,
    },
    say,
  );
}

/** How programs connect to the Kafka of one machine. */
export function kafkaLogin(port: number, password?: string): KafkaLogin {
  return {
    KAFKA_BROKERS: [`127.0.0.1:${port}`],
    KAFKA_SASL_MECHANISM: password === undefined ? '' : 'plain',
    KAFKA_SASL_USERNAME: USER,
    KAFKA_SASL_PASSWORD: password ?? '',
  };
}

const USER = 'keytally';
const javaOptions = [
  // A process that lost a thread for lack of memory only seems to run. It exits instead, and is started again.
  '-XX:+ExitOnOutOfMemoryError',
  '-XX:+UseSerialGC',
  '-Djava.awt.headless=true',
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
  '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info',
  '-Dorg.slf4j.simpleLogger.showDateTime=true',
  '-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSSZ',
];

/** The settings of Docker Compose, and what is otherwise on one machine. The file is its owner's alone. */
function serverProperties(
  { kafka, kafkaController }: Options['ports'],
  password: string | undefined,
  more: Record<string, string>,
): string {
  const login = `username="${USER}" password="${password}" user_${USER}="${password}"`;
  const module = `org.apache.kafka.common.security.plain.PlainLoginModule required ${login};`;
  const { listeners = `BROKER://127.0.0.1:${kafka},CONTROLLER://127.0.0.1:${kafkaController}`, ...others } = more;
  const settings = {
    listeners,
    'advertised.listeners': listeners,
    'controller.quorum.bootstrap.servers': `127.0.0.1:${kafkaController}`,
    // After a kill the controller, in this same process, first waits until the killed broker's session ends.
    'broker.session.timeout.ms': '3000',
    'broker.heartbeat.interval.ms': '500',
    // One broker on a small machine: few partitions, little memory.
    'offsets.topic.num.partitions': '4',
    'group.initial.rebalance.delay.ms': '0',
    'num.network.threads': '2',
    'num.io.threads': '4',
    'log.cleaner.dedupe.buffer.size': '8388608',
    ...(password === undefined
      ? { 'listener.security.protocol.map': 'BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT' }
      : {
          'listener.name.broker.plain.sasl.jaas.config': module,
          // The controller takes orders as well.
          'listener.name.controller.plain.sasl.jaas.config': module,
        }),
    ...others,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  return [readFileSync(join(checkout, 'deploy/kafka/server.properties'), 'utf8'), ...lines].join('');
}

async function format(how: { java: string; classes: string; properties: string; formatWith: string[] }) {
  const { java, classes, properties, formatWith } = how;
  const args = ['-Xmx128m', '-XX:TieredStopAtLevel=1', ...javaOptions, '-cp', classes, 'kafka.tools.StorageTool'];
  const clusterId = randomBytes(16).toString('base64url');
  const what = ['format', '--standalone', `--cluster-id=${clusterId}`, '--config', properties, ...formatWith];
  await runToEnd("Kafka's data folder could not be made", java, [...args, ...what]);
}
