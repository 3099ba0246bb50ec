import { randomInt } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StackError } from './errors.ts';
import { identify, type ProcessId } from './processes.ts';

// Below the ports that systems give to outgoing connections (from 32768 on Linux). Else a client that keeps trying to
// reach a server that is down may be given the server's own port, and take it.
const FIRST = 20_000;
const LAST = 32_000;

/** Reserves free ports for this process, each below a limit, none of them in `except`. */
export async function freePorts(count: number, except: number[] = [], below = LAST): Promise<number[]> {
  const found: number[] = [];
  for (let tries = 0; found.length < count; tries++) {
    if (tries > 1_000) throw new StackError(`found no ${count} free ports from ${FIRST} to ${below} on 127.0.0.1`);
    const port = randomInt(FIRST, below);
    if (!except.includes(port) && (await reservePort(port))) found.push(port);
  }
  return found;
}

/**
 * Reserves a port for this process until it ends, if it is free and no other process has reserved it: a server may
 * listen on it only seconds later, and another start must not choose it meanwhile.
 */
export async function reservePort(port: number): Promise<boolean> {
  const holder = holderName(process.pid);
  // A system that does not tell when processes started: the port may be free, but nothing can be reserved.
  if (holder === undefined) return isFree(port);
  const reservation = announce(port, holder);
  if (!reservation) return false;
  if (!othersWant(port, reservation) && (await isFree(port))) return true;
  rmSync(join(folder(), reservation), { force: true });
  return false;
}

/** Whether a server could listen on this port of 127.0.0.1 now. */
export async function isFree(port: number): Promise<boolean> {
  return (await whyTaken(port)) === undefined;
}

/** Why no server could listen on this port of 127.0.0.1 now; undefined when one could. */
export async function whyTaken(port: number): Promise<string | undefined> {
  const server = createServer();
  const code = await new Promise<string | undefined>((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve(undefined));
  });
  await new Promise((resolve) => server.close(resolve));
  if (code === 'EADDRINUSE') return 'is in use';
  return code === 'EACCES' ? 'may not be used by this user' : code && `cannot be used (${code})`;
}

const LISTENING = '0A';

/**
 * Whether the user of a process is the one who listens on this port of 127.0.0.1. Also true where the system does not tell: it
 * does on Linux.
 */
export async function isHeldByUserOf({ pid }: ProcessId, port: number): Promise<boolean> {
  const tables = ['/proc/net/tcp', '/proc/net/tcp6'].filter((table) => existsSync(table));
  if (tables.length === 0) return true;
  const user = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  // All addresses, 127.0.0.1, or that as one of IPv6, as Java has it; in the byte order of the machine.
  const reached = new RegExp(`^(0+|(0{16}FFFF0000)?0100007F|(0{20}FFFF)?7F000001):${hex}$`);
  const sockets = (await Promise.all(tables.map((table) => readFile(table, 'latin1')))).join('').split('\n');
  return sockets.some((socket) => {
    const [, local = '', , state, , , , uid] = socket.trim().split(/\s+/);
    return state === LISTENING && reached.test(local) && Number(uid) === user;
  });
}

// A reservation is an empty file named PORT-PID-START. Two processes that want one port at the same moment both write
// theirs before they look for others, so at least one of them sees the other and takes another port. A file whose
// process has ended counts for nothing and is removed, since no later process writes that name.

/** Writes this process's reservation; undefined when it has one of this port already. */
function announce(port: number, holder: string): string | undefined {
  const name = `${port}-${holder}`;
  try {
    writeFileSync(join(folder(), name), '', { flag: 'wx' });
    return name;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return undefined;
    throw error;
  }
}

/** Whether another living process has a reservation of the port. Removes those of processes that have ended. */
function othersWant(port: number, own: string): boolean {
  const living = new Map<string, boolean>();
  const isLiving = (holder: string) => {
    const known = living.get(holder);
    if (known !== undefined) return known;
    const lives = holderName(parseInt(holder)) === holder;
    living.set(holder, lives);
    return lives;
  };
  let wanted = false;
  for (const name of readdirSync(folder()).filter((one) => one !== own)) {
    const [, reserved, holder] = /^(\d+)-(\d+-\w+)$/.exec(name) ?? [];
    if (holder === undefined) continue;
    if (!isLiving(holder)) rmSync(join(folder(), name), { force: true });
    else if (Number(reserved) === port) wanted = true;
  }
  return wanted;
}

function holderName(pid: number): string | undefined {
  const startedAt = identify(pid)?.startedAt;
  return startedAt === undefined ? undefined : `${pid}-${startedAt.replaceAll(/\W+/g, '_')}`;
}

// One folder for each user: files are removed in it, so it must not be one that somebody else prepared, or a link.
function folder(): string {
  const user = process.getuid?.() ?? 0;
  const path = join(tmpdir(), `keytally-ports-${user}`);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory() || (process.getuid && found.uid !== user))
    throw new StackError(`${path} is not a folder of this user: remove it, or set TMPDIR to another folder`);
  return path;
}
