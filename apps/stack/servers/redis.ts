import { mkdirSync, readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { StackError } from '../process/errors.ts';
import { checkout } from '../process/home.ts';
import { ensureProgram } from './packages.ts';
import { replaceFile } from '../process/files.ts';
import type { Program } from '../process/program.ts';

/** Finds Redis or Valkey on the PATH, or installs Redis if this user may; else throws with the command that would. */
export function ensureRedis(say: (line: string) => void): Promise<string> {
  return ensureProgram(
    {
      what: 'redis-server',
      commands: ['redis-server', 'valkey-server'],
      version: '--version',
      isNew: (said) => Number(/v=(\d+)\./.exec(said)?.[1]) >= 7,
      packages: ['redis-server'],
      brew: 'redis',
      missing: 'neither redis-server nor valkey-server of version 7 or newer is on the PATH',
    },
    say,
  );
}

type Options = {
  binary: string;
  folder: string;
  port: number;
  /** Of its owner, `default`, and of the users of `sql/redis/users.conf`. Without them, everybody on the machine may write here. */
  passwords?: Record<string, string>;
  settings?: Record<string, string | number>;
};

/** Redis that writes everything it accepts to its append-only file, and never evicts. */
export function redisProgram({ binary, folder, port, passwords = {}, settings: more }: Options): Program {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // In a file, since all users of the machine can read the arguments of a process.
  const config = join(folder, 'redis.conf');
  replaceFile(config, Object.entries(passwords).map(lineOf).join(''));
  const settings = {
    bind: '127.0.0.1',
    port,
    dir: folder,
    // Each test file has one of its own.
    databases: 1024,
    appendonly: 'yes',
    appendfsync: 'everysec',
    // A verification takes 460 bytes: at the default of 64 MB Redis would rewrite the file every few seconds. It loads 128 MB
    // in about 0.8 s.
    'auto-aof-rewrite-min-size': '128mb',
    save: '',
    'maxmemory-policy': 'noeviction',
    daemonize: 'no',
    ...more,
  };
  const login = passwords.default ? `AUTH ${passwords.default}\r\n` : '';
  return {
    name: 'redis',
    port,
    command: binary,
    args: [config, ...Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])],
    env: { PATH: process.env.PATH, TZ: 'UTC' },
    // While Redis loads its file it answers -LOADING.
    isReady: async () => (await ask(port, `${login}PING\r\nQUIT\r\n`)).includes('+PONG'),
  };
}

/** The line of a user, with what `sql/redis/users.conf` lets it do. */
function lineOf([user, password]: [string, string]): string {
  if (user === 'default') return `requirepass ${password}\n`;
  const lines = readFileSync(join(checkout, 'sql/redis/users.conf'), 'utf8').split('\n');
  const line = lines.find((one) => one.startsWith(`user ${user} on `));
  if (!line) throw new StackError(`sql/redis/users.conf lacks ${user}`);
  return `${line.replace(' on ', ` on >${password} `)}\n`;
}

async function ask(port: number, question: string): Promise<string> {
  const socket = createConnection({ port, host: '127.0.0.1', timeout: 1_000 });
  socket.on('timeout', () => socket.destroy());
  socket.write(question);
  return await text(socket).catch(() => '');
}
