import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { start, untilReady, type Started } from '../../apps/stack/process/program.ts';
import { ensureRedis, redisProgram } from '../../apps/stack/servers/redis.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { atEnd } from './at-end.ts';
import { eventually } from './eventually.ts';

export type OwnRedis = Awaited<ReturnType<typeof makeOwnRedis>>;

/**
 * A Redis of a test's own, to be killed and emptied; `settings` are added to ours. It does not wait for
 * the disk: what it answered outlives its process, but not the machine.
 */
export async function makeOwnRedis(name: string, settings: Record<string, string | number> = {}) {
  const folder = mkdtempSync(join(tmpdir(), `keytally-${name}-`));
  const [port = 0] = await freePorts(1);
  const data = join(folder, 'redis');
  const log = join(folder, 'redis.log');
  const program = redisProgram({
    binary: await ensureRedis(() => {}),
    folder: data,
    port,
    settings: { appendfsync: 'no', ...settings },
  });
  // By this the run finds it when the test is cut off.
  program.env.TEST_FOLDER = process.env.TEST_FOLDER;
  let running: Started;
  const admin = new Redis(port, '127.0.0.1', { lazyConnect: true });
  admin.on('error', () => {});

  const own = {
    url: `redis://127.0.0.1:${port}`,
    admin,
    pid: () => running.pid,
    async start() {
      running = await start(program, log);
      await untilReady(program, running, log);
    },
    async end(signal: 'SIGKILL' | 'SIGTERM') {
      process.kill(running.pid, signal);
      await running.ended;
    },
    remove: atEnd(async () => {
      admin.disconnect();
      await own.end('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }),
  };
  await own.start();
  return own;
}

/**
 * Waits until Redis has given the kernel everything that it has answered, so that a kill right afterwards loses nothing.
 * With appendfsync everysec Redis postpones a write while an fsync is still in progress, for up to 2 s on a slow disk, and
 * answers meanwhile: what it holds then dies with it.
 */
export async function untilWritten(redis: Redis): Promise<void> {
  await eventually('no fsync is in progress', async () =>
    /^aof_pending_bio_fsync:0\r?$/m.test(await redis.info('persistence')),
  );
}

/** Waits until every shard is open on a Redis that may just have been started again, and programs at these addresses know it. */
export async function untilOpen({ admin }: Pick<OwnRedis, 'admin'>, ...urls: string[]): Promise<void> {
  // First as Redis has it: the readiness of a program may still be that of before the restart.
  await eventually('every shard is open', async () => {
    const runId = /^run_id:(\w+)/m.exec(await admin.info('server'))?.[1];
    const owners = await Promise.all(ALL_SHARDS.map((shard) => admin.hget(keyspace.meta(shard), 'owner')));
    return owners.every((owner) => owner === runId);
  });
  for (const url of urls) await eventually('a program knows it', async () => (await fetch(`${url}/readyz`)).ok);
}
