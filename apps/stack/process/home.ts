import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { StackError } from './errors.ts';
import { readJson, replaceFile } from './json-file.ts';
import { freePorts, reservePort } from './ports.ts';
import { isAlive, type ProcessId } from './processes.ts';

/** The checkout that this file belongs to. */
export const checkout = resolve(import.meta.dirname, '../../..');

/** The folder where a stack keeps everything, and the ports on which it is reached. */
export interface Home {
  folder: string;
  apiPort: number;
  verifyPort: number;
  apiUrl: string;
  verifyUrl: string;
  /** What carries usage events to the books. */
  bus: Bus;
}

export type Bus = 'redis' | 'kafka';

/**
 * Reads KEYTALLY_HOME, KEYTALLY_PORT and BUS. Without KEYTALLY_PORT the stack keeps the port that it has or had last.
 * Without BUS a running stack's own is taken.
 */
export function openHome(environment: NodeJS.ProcessEnv): Home {
  const folder = resolve(checkout, environment.KEYTALLY_HOME || '.keytally');
  const running = findSupervisor({ folder });
  const text = environment.KEYTALLY_PORT || String(running?.apiPort ?? lastApiPort({ folder }) ?? 8080);
  const apiPort = /^\d+$/.test(text) ? Number(text) : 0;
  if (apiPort < 1 || apiPort > 65_534)
    throw new StackError(`KEYTALLY_PORT must be a port from 1 to 65534, not ${text}`);
  const url = (port: number) => `http://127.0.0.1:${port}`;
  const verifyPort = apiPort + 1;
  const bus = environment.BUS || running?.bus || 'redis';
  if (bus !== 'redis' && bus !== 'kafka') throw new StackError(`BUS must be redis or kafka, not ${bus}`);
  return { folder, apiPort, verifyPort, apiUrl: url(apiPort), verifyUrl: url(verifyPort), bus };
}

export function logFile(home: Home, name: string): string {
  return join(home.folder, 'logs', `${name}.log`);
}

const NEEDED_MB = 300;

/** Makes the folder, and refuses a disk that is too full for the servers to start. */
export function prepareHome({ folder }: Home): void {
  // Other users may pass through but not list it: PostgreSQL may run as another user.
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  mkdirSync(join(folder, 'logs'), { recursive: true, mode: 0o700 });
  const { bavail, bsize } = statfsSync(folder);
  const freeMb = Math.floor((bavail * bsize) / 1024 / 1024);
  if (freeMb < NEEDED_MB) {
    throw new StackError(`the disk of ${folder} is full: ${freeMb} MB are free and ${NEEDED_MB} MB are needed`);
  }
}

/** What the supervisor, the process that watches over the others, wrote down about itself. */
export interface SupervisorNote extends ProcessId {
  apiPort: number;
  checkout: string;
  /** Absent in the note of a version that only knew Redis. */
  bus?: Bus;
}

/** The supervisor of this home, if one is running. */
export function findSupervisor({ folder }: Pick<Home, 'folder'>): SupervisorNote | undefined {
  const note = readJson<SupervisorNote>(join(folder, 'supervisor.json'));
  return note && isAlive(note) ? note : undefined;
}

/** Takes the home for one supervisor. The note of a supervisor that was killed doesn't count. */
export function takeHome(home: Home, note: SupervisorNote): void {
  const file = join(home.folder, 'supervisor.json');
  if (existsSync(file) && !findSupervisor(home)) rmSync(file);
  try {
    writeFileSync(file, JSON.stringify(note), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new StackError(`${home.folder} was just taken by another stack`);
  }
}

export function leaveHome({ folder }: Home): void {
  rmSync(join(folder, 'supervisor.json'), { force: true });
}

const inner = ['postgres', 'redis', 'clickhouse', 'kafka', 'kafkaController', 'relay', 'consumer', 'webhooks'] as const;
export type InnerPorts = Record<(typeof inner)[number], number>;

/** Chooses the ports that the user does not: those of the last start where they are still free, else new ones. */
export async function choosePorts({ folder, apiPort, verifyPort }: Home): Promise<InnerPorts> {
  const file = join(folder, 'ports.json');
  const kept: Partial<InnerPorts> = {};
  const taken = [apiPort, verifyPort];
  for (const [name, port] of Object.entries(readJson<InnerPorts>(file) ?? {})) {
    if (taken.includes(port) || !(await reservePort(port))) continue;
    kept[name as keyof InnerPorts] = port;
    taken.push(port);
  }
  const missing = inner.filter((name) => kept[name] === undefined);
  const found = await freePorts(missing.length, taken);
  const ports = { ...kept, ...Object.fromEntries(missing.map((name, i) => [name, found[i]])) } as InnerPorts;
  replaceFile(file, JSON.stringify(ports));
  return ports;
}

/** The file with the key that encrypts signing keys and stored answers; made once. */
export function masterKeyFile({ folder }: Home): string {
  const file = join(folder, 'master.key');
  if (!existsSync(file)) writeFileSync(file, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  return file;
}

/** Copies a master key into a home, for its owner alone: Compose keeps one that everybody may read, in a closed folder. */
export function copyMasterKey(file: string, { folder }: Home): void {
  writeFileSync(join(folder, 'master.key'), readFileSync(file), { mode: 0o600 });
}

/**
 * Writes shell lines that `. FILE` reads. Those of clients (KEYTALLY_…) are exported to the programs that the shell starts.
 * The servers' addresses are not: make token, migrate and the like take an exported DATABASE_URL for other servers.
 */
export function writeEnvFile({ folder }: Pick<Home, 'folder'>, values: Record<string, string>): void {
  const lines = Object.entries(values).map(([name, value]) => {
    const assignment = `${name}='${value.replaceAll("'", "'\\''")}'`;
    return name.startsWith('KEYTALLY_') ? `export ${assignment}\n` : `${assignment}\n`;
  });
  replaceFile(envFile({ folder }), lines.join(''), 0o600);
}

/** Reads what `writeEnvFile` wrote, now or before it exported anything; empty before the first start. */
export function readEnvFile({ folder }: Pick<Home, 'folder'>): Record<string, string> {
  const file = envFile({ folder });
  if (!existsSync(file)) return {};
  const lines = readFileSync(file, 'utf8').matchAll(/^(?:export )?(\w+)='(.*)'$/gm);
  return Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value.replaceAll("'\\''", "'")]));
}

/** The api's port at the last start that succeeded, as the env file has it: programs and shells may still use it. */
export function lastApiPort(home: Pick<Home, 'folder'>): number | undefined {
  const [, port] = /:(\d+)$/.exec(readEnvFile(home).KEYTALLY_API_URL ?? '') ?? [];
  return port === undefined ? undefined : Number(port);
}

/** The file of shell lines with the addresses and the token. */
export function envFile({ folder }: Pick<Home, 'folder'>): string {
  return join(folder, 'env');
}
