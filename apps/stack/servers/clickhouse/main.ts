// ClickHouse for one machine: CLICKHOUSE_PASSWORDS='{"keytally":"…","keytally_api":"…","keytally_consumer":"…"}' node apps/stack/servers/clickhouse/main.ts --folder DIR --port N [--config FILE]
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openEngine } from './engine.ts';
import { makeServer } from './http.ts';
import { users, type Passwords } from './users.ts';

const text = { type: 'string' } as const;
const ownConfig = join(import.meta.dirname, 'engine.xml');
const { values } = parseArgs({ options: { folder: text, port: text, config: { ...text, default: ownConfig } } });
if (!values.folder || !values.port) throw new Error('usage: clickhouse/main.ts --folder DIR --port N [--config FILE]');
const passwords = JSON.parse(process.env.CLICKHOUSE_PASSWORDS ?? '{}') as Partial<Passwords>;
if (!users.every((user) => passwords[user]))
  throw new Error(`CLICKHOUSE_PASSWORDS must have those of ${users.join(', ')}`);

const engine = openEngine(values.folder, values.config);
// Whatever a process before left there is removed.
const folder = join(values.folder, 'answers');
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
const server = makeServer({ engine, folder, passwords: passwords as Passwords });
server.listen(Number(values.port), '127.0.0.1');
await once(server, 'listening');
console.log(`ClickHouse ${engine.version} (chdb) listens on 127.0.0.1:${values.port}, data in ${values.folder}`);

let stopping = false;
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    if (stopping) return;
    stopping = true;
    console.log(`${signal}: finishing running statements`);
    // Clients keep their connections open, so each is closed once it has had its answer.
    setInterval(() => server.closeIdleConnections(), 20);
    // The engine closes after the last answer: earlier would cut a statement off.
    server.close(() => {
      engine.close();
      process.exit(0);
    });
  });
}
