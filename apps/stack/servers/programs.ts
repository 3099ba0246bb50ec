import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';
import { checkout, masterKeyFile, readEnvFile, type Bus, type Home, type InnerPorts } from '../process/home.ts';
import type { User as ClickHouseUser } from './clickhouse/users.ts';
import type { Role } from './postgres.ts';
import type { RedisUser } from './redis.ts';
import type { Servers } from './servers.ts';
import { answersOk, type Program } from '../process/program.ts';

/** Where the servers of a running stack are. */
export interface Addresses {
  DATABASE_URL: string;
  REDIS_URL: string;
  CLICKHOUSE_URL: string;
  /** Only while Kafka runs: with `BUS=kafka`, and afterwards while its folder is there. */
  KAFKA_BROKERS?: string;
  KAFKA_SASL_MECHANISM?: string;
  KAFKA_SASL_USERNAME?: string;
  KAFKA_SASL_PASSWORD?: string;
}

/** The order in which our programs stop: each may need the next one to finish, and all of them need the servers. */
export const stopOrder = ['verify', 'api', 'relay', 'consumer', 'webhooks'] as const;

/** The names of all processes of a stack. */
export function processNames(bus: Bus): string[] {
  const servers = ['postgres', 'redis', 'clickhouse'];
  return bus === 'kafka'
    ? [...servers, 'kafka', 'api', 'verify', 'relay', 'consumer', 'webhooks']
    : [...servers, 'api', 'verify', 'consumer', 'webhooks'];
}

/**
 * For programs that move events. They use what they read for a moment only, so the young generation of 130 MB that Node takes
 * on a large machine would only hold more garbage.
 */
const moverOptions = ['--max-semi-space-size=8'];
/** The api hands on exports as well. Left alone, the collector would let garbage grow to three times what is in use. */
const apiOptions = [...moverOptions, '--heap-growing-percent=50'];
/** What is under way survives a collection or two where somebody floods it: left alone, such garbage grows to 100 MB. */
const verifyOptions = ['--heap-growing-percent=100'];

/** api, verify, consumer, webhooks and with Kafka the relay, as they run on one machine. */
export function ourPrograms(
  home: Home,
  addresses: Addresses,
  ports: InnerPorts,
  servers: Pick<Servers, 'postgresUrl' | 'redisUrlOf' | 'clickhouseUrlOf'>,
): Program[] {
  // Only migrations and an operator's commands connect to the servers as their owner; each program has the rights that it needs.
  const { DATABASE_URL: _, REDIS_URL: _2, CLICKHOUSE_URL: _3, ...env } = programEnvironment(home, addresses);
  const postgres = (role: Role) => ({ DATABASE_URL: servers.postgresUrl('keytally', role) });
  const redis = (user: RedisUser) => ({ REDIS_URL: servers.redisUrlOf(user) });
  const books = (user: ClickHouseUser) => ({ CLICKHOUSE_URL: `${servers.clickhouseUrlOf(user)}/keytally` });
  const ofApi = { ...postgres('keytally_api'), ...redis('keytally_api'), ...books('keytally_api') };
  const ofConsumer = { ...postgres('keytally_consumer'), ...redis('keytally_consumer'), ...books('keytally_consumer') };
  return [
    ourProgram('api', 'api', home.apiPort, { ...env, ...ofApi }),
    ourProgram('verify', 'verify', home.verifyPort, { ...env, ...redis('keytally_verify') }),
    ...(home.bus === 'kafka'
      ? [ourProgram('relay', 'relay', ports.relay, { ...env, ...redis('keytally_relay') })]
      : []),
    ourProgram('consumer', 'consumer', ports.consumer, { ...env, ...ofConsumer }),
    ourProgram('webhooks', 'webhooks', ports.webhooks, { ...env, ...postgres('keytally_webhooks') }),
  ];
}

// What verify writes, relay and consumer carry away at the same pace: they yield no core to it.
const scripts = {
  api: { script: 'apps/api/main.ts', options: apiOptions, yields: true },
  verify: { script: 'apps/verify/main.ts', options: verifyOptions, yields: false },
  relay: { script: 'apps/relay/main.ts', options: moverOptions, yields: false },
  consumer: { script: 'apps/consumer/main.ts', options: moverOptions, yields: false },
  webhooks: { script: 'apps/webhooks/main.ts', options: moverOptions, yields: true },
} as const;

/** What Node is given to run one of our programs. */
export function nodeArguments(which: keyof typeof scripts): string[] {
  const { script, options } = scripts[which];
  return [...options, join(checkout, script)];
}

/** One of our programs, under a name of its own. */
export function ourProgram(which: keyof typeof scripts, name: string, port: number, env: NodeJS.ProcessEnv): Program {
  return {
    name,
    port,
    yields: scripts[which].yields,
    command: process.execPath,
    args: nodeArguments(which),
    env: { ...env, PORT: String(port) },
    isReady: () => answersOk(`http://127.0.0.1:${port}/readyz`),
    stopWithinMs: 20_000,
  };
}

// What the stack decides itself, in all its forms. MASTER_KEY_PREVIOUS is not among it: the file is replaced by hand.
const decidedHere =
  /^((DATABASE|REDIS|CLICKHOUSE)_URL|(API|CONSUMER|WEBHOOKS)_DATABASE_PASSWORD|MASTER_KEY|HOST|PORT|OPS_PORT|CONSUMER_NAME|KAFKA_(BROKERS|TLS|TLS_CA|SASL_\w+|TOPIC_REPLICATION))(_FILE|_COMMAND)?$/;
const notForPrograms = /^(npm_|INIT_CWD$|MAKE|KEYTALLY_(API_URL|VERIFY_URL|TOKEN)$)/;

/** The variables of an environment that the programs of a stack do not get, since the stack decides them itself. */
export function notTaken(environment: NodeJS.ProcessEnv): string[] {
  return Object.keys(environment).filter((name) => environment[name] && decidedHere.test(name));
}

/** The environment of our programs: that of `make up`, with what this stack decides itself. */
export function programEnvironment(home: Home, addresses: Addresses): NodeJS.ProcessEnv {
  const given = Object.entries(process.env).filter(([name]) => !decidedHere.test(name) && !notForPrograms.test(name));
  return {
    ...Object.fromEntries(given),
    ...addresses,
    BUS: home.bus,
    MASTER_KEY_FILE: masterKeyFile(home),
    HOST: '127.0.0.1',
    // The same name for consumer and relay: whichever reads the outbox finds the entries that the other left unfinished.
    CONSUMER_NAME: 'consumer-1',
    ...publicUrls(home),
  };
}

// Those of the stack itself where the environment has none, nor a file of one.
function publicUrls(home: Home): NodeJS.ProcessEnv {
  const own = { PUBLIC_API_URL: home.apiUrl, PUBLIC_VERIFY_URL: home.verifyUrl };
  return Object.fromEntries(Object.entries(own).filter(([name]) => !process.env[name] && !process.env[`${name}_FILE`]));
}

/** The environment of a command on the servers of the stack in a home, as their owner. */
export function ownerEnvironment(home: Home): NodeJS.ProcessEnv {
  const { DATABASE_URL = '', REDIS_URL = '', CLICKHOUSE_URL = '' } = readEnvFile(home);
  return programEnvironment(home, { DATABASE_URL, REDIS_URL, CLICKHOUSE_URL });
}

/** Runs one of our commands in front of the user, on the stack in a home if no other environment is given; gives its exit code. */
export async function runOnStack(
  home: Home,
  script: string,
  args: string[] = [],
  env = ownerEnvironment(home),
): Promise<number> {
  const child = spawn(process.execPath, [join(checkout, script), ...args], { env, stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

/** Runs one of our commands to its end; gives what it printed. */
export async function runOnce(
  script: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [join(checkout, script), ...args], {
      env,
      signal,
    });
    return stdout;
  } catch (error) {
    if (signal.aborted) throw new StackError('stopped before it was ready');
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    const lines = `${stdout}\n${stderr}`.split('\n').filter((line) => line.trim());
    const cause = lines.find((line) => /error|fatal/i.test(line)) ?? lines.at(-1) ?? (error as Error).message;
    throw new StackError(`${script} failed: ${cause.trim().slice(0, 500)}`);
  }
}
