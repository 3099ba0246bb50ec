import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { join } from 'node:path';
import { runToEnd, StackError } from '../process/errors.ts';
import { checkout, masterKeyFile, portsOf, readEnvFile, type Bus, type Home } from '../process/home.ts';
import { answersOk, type Program } from '../process/program.ts';
import type { Servers } from './servers.ts';

/** The order in which our programs stop: each may need the next one to finish, and all of them need the servers. */
export const stopOrder = ['verify', 'api', 'relay', 'consumer', 'webhooks'] as const;
type ProgramName = (typeof stopOrder)[number];

/** The names of our programs in a stack. */
export function programNames(bus: Bus): ProgramName[] {
  return stopOrder.filter((name) => name !== 'relay' || bus === 'kafka');
}

/** The names of all processes of a stack. */
export function processNames(bus: Bus): string[] {
  return ['postgres', 'redis', 'clickhouse', ...(bus === 'kafka' ? ['kafka'] : []), ...programNames(bus)];
}

/**
 * For programs that move events. They use what they read for a moment only, so the young generation of 130 MB that Node takes
 * on a large machine would only hold more garbage.
 */
const moverOptions = ['--max-semi-space-size=8'];
const nodeOptions: Record<ProgramName, string[]> = {
  // It hands on exports as well. Left alone, the collector would let garbage grow to three times what is in use.
  api: [...moverOptions, '--heap-growing-percent=50'],
  // What is under way survives a collection or two where somebody floods it: left alone, such garbage grows to 100 MB.
  verify: ['--heap-growing-percent=100'],
  relay: moverOptions,
  consumer: moverOptions,
  webhooks: moverOptions,
};

/** What Node is given to run one of our programs. */
export function nodeArguments(which: ProgramName): string[] {
  return [...nodeOptions[which], join(checkout, `apps/${which}/main.ts`)];
}

/**
 * Our programs, as they run on one machine. Only migrations and an operator's commands connect to the servers as their owner; each
 * program has the rights that it needs.
 */
export function ourPrograms(home: Home, servers: Servers, kafka: Record<string, string>): Program[] {
  const { KEYTALLY_ADDRESS: address = '', TLS_CERTIFICATE_PATH } = process.env;
  // Who looks whether they are ready asks 127.0.0.1, in plain HTTP.
  if (!['', '127.0.0.1', '0.0.0.0', '::'].includes(address))
    throw new StackError(
      `KEYTALLY_ADDRESS is 127.0.0.1, or 0.0.0.0 or :: for all addresses of this machine, not ${address}`,
    );
  if (TLS_CERTIFICATE_PATH)
    throw new StackError('a stack speaks plain HTTP: unset TLS_CERTIFICATE_PATH, and put a proxy with TLS before it');
  const portOf = portsOf(home);
  return programNames(home.bus).map((name) => {
    const addresses = { ...servers.addresses('keytally', name), ...kafka };
    const env = programEnvironment(home, addresses);
    // What clients reach; the rest is for this machine alone.
    if (name === 'api' || name === 'verify') env.HOST = address || env.HOST;
    return ourProgram(name, name, portOf[name], env);
  });
}

/** One of our programs, under a name of its own. */
export function ourProgram(which: ProgramName, name: string, port: number, env: NodeJS.ProcessEnv): Program {
  return {
    name,
    port,
    // What verify writes, relay and consumer carry away at the same pace: they yield no core to it.
    yields: which === 'api' || which === 'webhooks',
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
  return Object.keys(environment).filter((name) => environment[name] && isDecidedHere(name));
}

/** Whether the stack decides a variable itself. */
export function isDecidedHere(name: string): boolean {
  return decidedHere.test(name);
}

/** The environment of our programs: that of `make up`, with what this stack decides itself. */
export function programEnvironment(home: Home, addresses: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
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

/** Starts one of our commands. */
export function startCommand(name: string, args: string[], options: SpawnOptions): ChildProcess {
  return spawn(process.execPath, [join(checkout, `apps/api/commands/${name}.ts`), ...args], options);
}

/** Waits for the end of a command; gives its exit code. */
export function endOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('close', (code) => resolve(code ?? 1));
    child.once('error', reject);
  });
}

/** Runs one of our commands in front of the user, on the stack in a home if no other environment is given; gives its exit code. */
export function runOnStack(home: Home, name: string, args: string[] = [], env = ownerEnvironment(home)) {
  return endOf(startCommand(name, args, { env, stdio: 'inherit' }));
}

/** Runs one of our commands to its end; gives what it printed. */
export function runOnce(name: string, args: string[], env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string> {
  const script = join(checkout, `apps/api/commands/${name}.ts`);
  return runToEnd(`${name} failed`, process.execPath, [script, ...args], { env, signal });
}
