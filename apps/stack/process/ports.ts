import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { existsSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { StackError } from './errors.ts';
import type { ProcessId } from './processes.ts';

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
 * Reserves a port for this process until it ends, if it is free and no other process has reserved it: a server may listen on it only
 * seconds later, and another start must not choose it meanwhile. No server of ours speaks UDP: a socket there is the reservation, which
 * ends with the process.
 */
export async function reservePort(port: number): Promise<boolean> {
  const socket = createSocket('udp4');
  const isOurs = await new Promise<boolean>((resolve) => {
    socket.once('error', () => resolve(false));
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(true));
  });
  if (isOurs && (await whyTaken(port)) === undefined) {
    socket.unref();
    return true;
  }
  socket.close();
  return false;
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
