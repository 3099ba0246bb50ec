import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../process/ports.ts';
import { stopProcess } from '../process/processes.ts';
import { start, untilReady } from '../process/program.ts';
import { ensureRedis } from './redis.ts';
import { prepareServers } from './servers.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'older');
const passwords = () => readdirSync(folder).filter((name) => name.endsWith('-password'));

test('a folder whose Redis and ClickHouse had no passwords gets them at the next start, and keeps what they had', async () => {
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  await ensureRedis(console.error);
  await whileTheyRun(async (redis, books) => {
    await redis.set('kept', 'in Redis');
    await books.command({ query: 'create table kept (a String) engine = MergeTree order by a' });
    await books.command({ query: "insert into kept values ('in the books')" });
  });
  const made = passwords();
  for (const name of made) rmSync(join(folder, name));

  await whileTheyRun(async (redis, books) => {
    assert.is(await redis.get('kept'), 'in Redis');
    assert.is(await (await books.query({ query: 'select a from kept', format: 'CSV' })).text(), '"in the books"\n');
    const stranger = connect(redis.options.port!, '127.0.0.1');
    stranger.end('GET kept\r\n');
    assert.match(await text(stranger), /^-NOAUTH/);
  });
  assert.equal([passwords(), made.length], [made, 8]);
});

/** Starts Redis and ClickHouse on the folder, and connects to them as their owner. */
async function whileTheyRun(work: (redis: Redis, books: ClickHouseClient) => Promise<void>): Promise<void> {
  const [postgres = 0, ...ports] = await freePorts(3);
  const [redisPort = 0, clickhouse = 0] = ports;
  const servers = await prepareServers({ folder, ports: { postgres, redis: redisPort, clickhouse }, throwAway: true });
  const programs = servers.programs.filter(({ port }) => ports.includes(port));
  const running = await Promise.all(
    programs.map(async (program) => {
      // By this the run finds it when the test is cut off.
      program.env.TEST_FOLDER = process.env.TEST_FOLDER;
      const log = join(folder, `${program.name}.log`);
      const started = await start(program, log);
      await untilReady(program, started, log);
      return started;
    }),
  );
  const [redis, books] = [new Redis(servers.redisUrl), createClient({ url: servers.clickhouseUrl })];
  try {
    await work(redis, books);
  } finally {
    redis.disconnect();
    await books.close();
    await Promise.all(running.map((one) => stopProcess(one, 'SIGTERM', 30_000)));
  }
}
