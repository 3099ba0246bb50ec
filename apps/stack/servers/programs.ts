import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';
import { checkout, masterKeyFile, type Bus, type Home, type InnerPorts } from '../process/home.ts';
import type { Role } from './postgres.ts';
import { answersOk, type Program } from '../process/program.ts';

/** Where the servers of a running stack are. */
export interface Addresses {
  DATABASE_URL: string;
  REDIS_URL: string;
  CLICKHOUSE_URL: string;
  /** Where there is a Kafka: with `BUS=kafka`, and until what it held is read. */
  KAFKA_BROKERS?: string;
}

/** The order in which our programs stop: each may still need the next, and all of them the servers. */
export const stopOrder = ['verify', 'api', 'relay', 'consumer'] as const;

/** The names of all processes of a stack. */
export function processNames(bus: Bus): string[] {
  const servers = ['postgres', 'redis', 'clickhouse'];
  return bus === 'kafka'
    ? [...servers, 'kafka', 'api', 'verify', 'relay', 'consumer']
    : [...servers, 'api', 'verify', 'consumer'];
}

/**
 * For programs that carry events: what they read is of use for a moment only, in so large a young generation as Node takes
 * on a large machine, 130 MB, nothing but more of it would lie about.
 */
const carrierOptions = ['--max-semi-space-size=8'];

/** api, verify, consumer and with Kafka the relay, as they run on one machine. */
export function ourPrograms(
  home: Home,
  addresses: Addresses,
  ports: InnerPorts,
  databaseUrl: (role: Role) => string,
): Program[] {
  // The owner's way to Postgres is for the migrations alone.
  const { DATABASE_URL: _, ...env } = programEnvironment(home, addresses);
  return [
    ourProgram('api', 'api', home.apiPort, { ...env, DATABASE_URL: databaseUrl('keytally_api') }),
    ourProgram('verify', 'verify', home.verifyPort, env),
    ...(home.bus === 'kafka' ? [ourProgram('relay', 'relay', ports.relay, env)] : []),
    ourProgram('consumer', 'consumer', ports.consumer, { ...env, DATABASE_URL: databaseUrl('keytally_consumer') }),
  ];
}

const scripts = {
  api: { script: 'apps/api/main.ts', options: [] },
  verify: { script: 'apps/verify/main.ts', options: [] },
  relay: { script: 'apps/relay/main.ts', options: carrierOptions },
  consumer: { script: 'apps/consumer/main.ts', options: carrierOptions },
} as const;

/** One of our programs, under a name of its own. */
export function ourProgram(which: keyof typeof scripts, name: string, port: number, env: NodeJS.ProcessEnv): Program {
  const { script, options } = scripts[which];
  return {
    name,
    port,
    command: process.execPath,
    args: [...options, join(checkout, script)],
    env: { ...env, PORT: String(port) },
    isReady: () => answersOk(`http://127.0.0.1:${port}/readyz`),
    stopSignal: 'SIGTERM',
    stopWithinMs: 20_000,
  };
}

/** What our programs find in their environment: what was given to `make up`, and this stack's own addresses. */
export function programEnvironment(home: Home, addresses: Addresses): NodeJS.ProcessEnv {
  const notOurs =
    /^(npm_|INIT_CWD$|MASTER_KEY$|MAKE|KEYTALLY_(API_URL|VERIFY_URL|TOKEN)$|KAFKA_(BROKERS|TLS|SASL|TOPIC_REPLICATION))/;
  const given = Object.entries(process.env).filter(([name]) => !notOurs.test(name));
  return {
    ...Object.fromEntries(given),
    ...addresses,
    BUS: home.bus,
    MASTER_KEY_FILE: masterKeyFile(home),
    HOST: '127.0.0.1',
    // Consumer or relay, whichever reads the outbox: what the one was given and left, the other finds under this name.
    CONSUMER_NAME: 'consumer-1',
    PUBLIC_API_URL: home.apiUrl,
  };
}

/** Runs one of our programs that ends by itself, and gives what it printed. */
export async function runOnce(
  script: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [join(checkout, script), ...args], { env, signal });
    return stdout;
  } catch (error) {
    if (signal.aborted) throw new StackError('stopped before it was ready');
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    const lines = `${stdout}\n${stderr}`.split('\n').filter((line) => line.trim());
    const cause = lines.find((line) => /error|fatal/i.test(line)) ?? lines.at(-1) ?? (error as Error).message;
    throw new StackError(`${script} failed: ${cause.trim().slice(0, 500)}`);
  }
}
