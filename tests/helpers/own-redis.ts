import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { start, untilReady, type Started } from '../../apps/stack/process/program.ts';
import { ensureRedis, redisProgram } from '../../apps/stack/servers/redis.ts';
import { atEnd } from './at-end.ts';

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
    async end() {
      process.kill(running.pid, 'SIGKILL');
      await running.ended;
    },
    remove: atEnd(async () => {
      admin.disconnect();
      await own.end();
      rmSync(folder, { recursive: true, force: true });
    }),
  };
  await own.start();
  return own;
}
