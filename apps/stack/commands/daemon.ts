// The process behind `make up`: starts the stack, then watches over it until `make down`.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { KafkaLogin } from '../../../shared/runtime/variables.ts';
import { describeFailure, StackError } from '../process/errors.ts';
import * as homes from '../process/home.ts';
import { kafkaLogin, prepareKafka } from '../servers/kafka.ts';
import { readRecords, stopRecorded } from '../process/leftovers.ts';
import { ourPrograms, programEnvironment, runOnce, stopOrder, type Addresses } from '../servers/programs.ts';
import { reservePort, whyTaken } from '../process/ports.ts';
import { prepareServers } from '../servers/servers.ts';
import { makeSupervisor } from '../process/supervisor.ts';
import type { Message } from './up.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { home: text, port: text, bus: text } });
const home = homes.openHome({ KEYTALLY_HOME: values.home, KEYTALLY_PORT: values.port, BUS: values.bus });
const say = (line: string) => console.log(`${new Date().toISOString()} ${line}`);
const supervisor = makeSupervisor({ folder: home.folder, logFile: (name) => homes.logFile(home, name), say });
const cutOff = new AbortController();
let up = false;

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void stop(signal));
// `make up` ended before the stack was up: nobody would know that it runs.
process.on('disconnect', () => up || void stop('make up ended before the stack was up'));

let leaveHome: homes.LeaveHome = () => {};
try {
  leaveHome = homes.takeHome(home);
  await startAll();
  up = true;
  await tell({ ready: true });
} catch (error) {
  // Stopped while starting: `stop` ends the process when it is done.
  if (cutOff.signal.aborted) await new Promise(() => {});
  say(`could not start: ${error instanceof StackError ? error.message : ((error as Error).stack ?? String(error))}`);
  await supervisor.stop(stopOrder);
  leaveHome(home);
  await tell({ failed: describeFailure(error) });
  process.exit(1);
}

async function startAll(): Promise<void> {
  const left = readRecords(home.folder);
  if (left.length > 0) {
    await step(`stopped what an earlier run left running: ${left.map(({ name }) => name).join(', ')}`, () =>
      stopRecorded(left, stopOrder),
    );
  }
  homes.masterKeyFile(home);
  await checkPorts();
  const ports = await homes.choosePorts(home);
  const servers = await step('data folders', () =>
    prepareServers({ folder: home.folder, ports, say: (line) => void tell({ line }) }),
  );
  const [kafka] = await Promise.all([
    startKafka(ports),
    ...servers.programs.map((program) => step(program.name, () => supervisor.add(program))),
  ]);

  const addresses: Addresses = {
    DATABASE_URL: servers.postgresUrl('keytally'),
    REDIS_URL: servers.redisUrl,
    CLICKHOUSE_URL: `${servers.clickhouseUrl}/keytally`,
    ...(kafka && { ...kafka, KAFKA_BROKERS: kafka.KAFKA_BROKERS.join() }),
  };
  const env = programEnvironment(home, addresses);
  await step('migrations', async () => {
    await servers.createDatabase('keytally');
    await runOnce('apps/api/commands/migrate.ts', [], { ...env, ...servers.rolePasswords }, cutOff.signal);
  });
  const token = await step('access token', async () => {
    const kept = homes.readEnvFile(home).KEYTALLY_TOKEN;
    return kept ?? (await runOnce('apps/api/commands/token.ts', ['--team', 'demo'], env, cutOff.signal)).trim();
  });
  homes.writeEnvFile(home, {
    KEYTALLY_API_URL: home.apiUrl,
    KEYTALLY_VERIFY_URL: home.verifyUrl,
    KEYTALLY_TOKEN: token,
    ...addresses,
  });
  await Promise.all(
    ourPrograms(home, addresses, ports, servers).map((program) =>
      step(program.name, () => supervisor.add(program, runsOn)),
    ),
  );
}

// What others of it serve goes on, and make restored, say, needs a stack that runs.
function runsOn(why: Error): void {
  say(why.message);
  void tell({ line: `${why.message}. It runs on; ask its /readyz what it waits for` });
}

/** Refuses ports that something listens on, and keeps other starts from choosing them before ours listen. */
async function checkPorts(): Promise<void> {
  for (const [name, port] of Object.entries({ api: home.apiPort, verify: home.verifyPort })) {
    const why = await whyTaken(port);
    if (why)
      throw new StackError(
        `port ${port} for ${name} ${why}; set KEYTALLY_PORT to another one, or stop what listens there`,
      );
    await reservePort(port);
  }
}

/**
 * Starts Kafka if it is the bus, or was: what it holds must reach the books, and the consumer reads it for as long as it is there. Gives
 * the way to it.
 */
async function startKafka(ports: homes.InnerPorts): Promise<KafkaLogin | undefined> {
  const folder = join(home.folder, 'kafka');
  if (home.bus !== 'kafka' && !existsSync(join(folder, 'data'))) return undefined;
  const say = (line: string) => void tell({ line });
  const password = homes.keepPassword(join(home.folder, 'kafka-password'));
  const program = await step("kafka's files", () => prepareKafka({ folder, ports, password, say }));
  await step(program.name, () => supervisor.add(program));
  if (home.bus !== 'kafka')
    say(
      `Kafka runs along, since it may hold usage of a run with BUS=kafka. Once the consumer's keytally_kafka_lag_events is 0, ` +
        `stop the stack and remove ${folder}`,
    );
  return kafkaLogin(ports.kafka, password);
}

async function step<T>(label: string, work: () => Promise<T>): Promise<T> {
  cutOff.signal.throwIfAborted();
  const began = performance.now();
  const result = await work();
  const ms = performance.now() - began;
  say(`${label}: done after ${Math.round(ms)} ms`);
  void tell({ line: `${label.padEnd(36)} ${(ms / 1000).toFixed(1).padStart(5)} s` });
  return result;
}

async function stop(why: string): Promise<void> {
  if (cutOff.signal.aborted) return;
  say(`stopping: ${why}`);
  cutOff.abort(new StackError('stopped before it was ready'));
  await supervisor.stop(stopOrder);
  leaveHome(home);
  say('stopped');
  process.exit(0);
}

async function tell(message: Message): Promise<void> {
  if (process.connected) await new Promise((resolve) => process.send?.(message, resolve));
}
