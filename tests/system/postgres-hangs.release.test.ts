import { Redis } from 'ioredis';
import postgres from '../../shared/stores/postgres-driver.ts';
import { test } from 'uvu';
import { eventually, makeWorld } from '../helpers/world.ts';

// A connection from the api to Postgres hangs: it neither answers nor ends.

const world = await makeWorld(['verify']);
const admin = postgres(world.env.DATABASE_URL!, { max: 2, onnotice: () => {} });
test.after(() => admin?.end());

test('the api gives up a reopening whose connection hangs, and does it again', async () => {
  let pid = 0;
  await admin.begin(async (tx) => {
    await tx`lock table workspaces in access exclusive mode`;
    const redis = new Redis(world.env.REDIS_URL!);
    await redis.flushdb().finally(() => redis.disconnect());
    // To read marks of days asks for the team of their workspaces.
    pid = await eventually('it waits for workspaces', async () => {
      const [waiting] = await admin<{ pid: number }[]>`
        select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'
          and (query like '%default_allowed_ips%' or query like '%usage_marks%')`;
      return waiting?.pid;
    });
    process.kill(pid, 'SIGSTOP');
  });
  try {
    const isOpen = async () => (await fetch(`${world.verify!.url}/readyz`)).ok;
    await eventually('all is open again', isOpen);
  } finally {
    process.kill(pid, 'SIGCONT');
  }
});
