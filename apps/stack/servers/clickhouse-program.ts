import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { answersOk, type Program } from '../process/program.ts';

type Options = { folder: string; port: number; passwords: Record<string, string> };

/** ClickHouse as a process of its own, on its data folder. Its users are those of Docker Compose. */
export function clickhouseProgram({ folder, port, passwords }: Options): Program {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return {
    name: 'clickhouse',
    port,
    yields: true,
    command: process.execPath,
    args: [join(import.meta.dirname, 'clickhouse/main.ts'), '--folder', folder, '--port', String(port)],
    // A running statement occupies a thread of Node's pool. With the default of four, four slow statements would keep
    // everything else waiting.
    // jemalloc, which the engine has within, keeps what was freed for five seconds: hundreds of MB while an export is made.
    env: {
      PATH: process.env.PATH,
      TZ: 'UTC',
      CLICKHOUSE_USERS_FILE: join(import.meta.dirname, 'clickhouse/users.xml'),
      CLICKHOUSE_PASSWORDS: JSON.stringify(passwords),
      UV_THREADPOOL_SIZE: '16',
      JE_MALLOC_CONF: 'dirty_decay_ms:200,muzzy_decay_ms:0',
    },
    isReady: () => answersOk(`http://127.0.0.1:${port}/ping`),
  };
}
