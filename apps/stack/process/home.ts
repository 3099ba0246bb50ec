import { hash, randomBytes } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { variables } from '../../../shared/runtime/variables.ts';
import { describeFailure, StackError } from './errors.ts';
import { readJson, replaceDurably, replaceFile, writeOnce } from './files.ts';
import { freePorts, reservePort } from './ports.ts';
import { identify, isAlive, type ProcessId } from './processes.ts';

/** The checkout that this file belongs to. */
export const checkout = resolve(import.meta.dirname, '../../..');

/** The folder where a stack keeps everything, and the ports on which it is reached. */
export interface Home {
  folder: string;
  apiPort: number;
  verifyPort: number;
  apiUrl: string;
  verifyUrl: string;
  bus: Bus;
}

export type Bus = 'redis' | 'kafka';

/**
 * Reads KEYTALLY_HOME, KEYTALLY_PORT and BUS. Without KEYTALLY_PORT the stack keeps the port that it has or had last.
 * Without BUS a running stack's own is taken.
 */
export function openHome(environment: NodeJS.ProcessEnv): Home {
  const folder = followLink(resolve(checkout, environment.KEYTALLY_HOME || '.keytally'));
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

// A restore moves what a link leads to, and works beside that. A link that leads nowhere counts too: so does the home's between
// the two moves of a restore.
function followLink(path: string): string {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return path;
  if (existsSync(path)) return realpathSync(path);
  return resolve(realpathSync(dirname(path)), readlinkSync(path));
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
  bus: Bus;
  /** What `describeVariables` gave when it started. */
  variables?: Record<string, string>;
  /** It runs in the foreground, as systemd starts it, with an environment that no shell has. */
  service?: boolean;
}

/** The supervisor of this home, if one is running. */
export function findSupervisor({ folder }: Pick<Home, 'folder'>): SupervisorNote | undefined {
  const note = readJson<SupervisorNote>(noteFile({ folder }));
  return note && isAlive(note) ? note : undefined;
}

/** The variables of the programs that are set in our environment, but BUS, with a hash of each: values may be secrets. */
export function describeVariables(): Record<string, string> {
  const set = Object.keys(variables).flatMap((name) => [name, `${name}_FILE`, `${name}_COMMAND`]);
  const given = set.filter((name) => process.env[name] && name !== 'BUS');
  return Object.fromEntries(given.map((name) => [name, hash('sha256', process.env[name]!).slice(0, 12)]));
}

/** Leaves a home that was taken, where its folder is now. */
export type LeaveHome = (home: Pick<Home, 'folder'>) => void;

/** Takes the home for one supervisor; gives how to leave it. */
export function takeHome(home: Home): LeaveHome {
  const id = identify(process.pid);
  if (!id) throw new Error('cannot tell which process this is');
  const note: SupervisorNote = {
    ...id,
    apiPort: home.apiPort,
    checkout,
    bus: home.bus,
    variables: describeVariables(),
    service: !process.connected,
  };
  const leave = lockHome(home);
  replaceFile(noteFile(home), JSON.stringify(note));
  return leave;
}

// The system may need a moment to end the lock of a process that was killed.
const LOCK_WITHIN_MS = 250;

/**
 * Keeps all other processes from taking the home, until this one leaves it or ends, however it does: the lock is the kernel's, by way
 * of SQLite, since Node has none. Who leaves removes the note, which is its own or that of a supervisor that is gone.
 */
export function lockHome(home: Home): LeaveHome {
  const file = join(home.folder, 'lock');
  let lock: DatabaseSync | undefined;
  try {
    // Whoever else could read it could lock it. Never opened where it exists: closing it would end a lock of this process.
    if (!existsSync(file)) writeFileSync(file, '', { flag: 'a', mode: 0o600 });
    lock = new DatabaseSync(file, { timeout: LOCK_WITHIN_MS });
    // A journal in a file would need space on a full disk.
    lock.exec('pragma journal_mode = memory; begin exclusive');
  } catch (error) {
    lock?.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY)
      throw new StackError(`${home.folder} was just taken by another stack`);
    throw new StackError(`${file} could not be locked: ${describeFailure(error)}`);
  }
  return (now) => {
    rmSync(noteFile(now), { force: true });
    lock.close();
  };
}

const SQLITE_BUSY = 5;

function noteFile({ folder }: Pick<Home, 'folder'>): string {
  return join(folder, 'supervisor.json');
}

const inner = ['postgres', 'redis', 'clickhouse', 'kafka', 'kafkaController', 'relay', 'consumer', 'webhooks'] as const;
export type InnerPorts = Record<(typeof inner)[number], number>;

/** The ports of a stack that was started, with those that the user chose. */
export function portsOf({ folder, apiPort, verifyPort }: Home): InnerPorts & Record<'api' | 'verify', number> {
  return { ...readJson<InnerPorts>(join(folder, 'ports.json'))!, api: apiPort, verify: verifyPort };
}

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

/** The file with the key that encrypts signing keys and stored answers; made once, before there is any data. */
export function masterKeyFile({ folder }: Home): string {
  const file = join(folder, 'master.key');
  if (!existsSync(file) && existsSync(join(folder, 'postgres/data')))
    throw new StackError(`${file} is missing, and another key would open nothing of what is here: put your copy there`);
  writeOnce(file, `${randomBytes(32).toString('base64')}\n`);
  return file;
}

/** The password in a file, made up on the first use. */
export function keepPassword(file: string): string {
  return writeOnce(file, randomBytes(24).toString('base64url'));
}

/** Copies a master key into a home, for its owner alone: Compose keeps one that everybody may read, in a closed folder. */
export function copyMasterKey(file: string, { folder }: Home): void {
  replaceDurably(join(folder, 'master.key'), readFileSync(file, 'utf8'));
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
  replaceDurably(envFile({ folder }), lines.join(''));
}

/** Reads what `writeEnvFile` wrote; empty before the first start. */
export function readEnvFile({ folder }: Pick<Home, 'folder'>): Record<string, string> {
  const file = envFile({ folder });
  if (!existsSync(file)) return {};
  const lines = readFileSync(file, 'utf8').matchAll(/^(?:export )?(\w+)='(.*)'$/gm);
  return Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value.replaceAll("'\\''", "'")]));
}

/** The api's port at the last start that succeeded, as the env file has it. */
function lastApiPort(home: Pick<Home, 'folder'>): number | undefined {
  const [, port] = /:(\d+)$/.exec(readEnvFile(home).KEYTALLY_API_URL ?? '') ?? [];
  return port === undefined ? undefined : Number(port);
}

/** The file of shell lines with the addresses and the token. */
export function envFile({ folder }: Pick<Home, 'folder'>): string {
  return join(folder, 'env');
}
