import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readRecords } from '../../apps/stack/process/leftovers.ts';
import { yieldCores } from '../../apps/stack/process/program.ts';
import { ourProgram } from '../../apps/stack/servers/programs.ts';
import { keyspace, meterShard } from '../../shared/stores/keyspace.ts';
import { VERIFY_PATH } from '../../shared/verification/operation.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { makeCustomers, must } from '../../tests/helpers/customers.ts';
import { makeOwnRedis } from '../../tests/helpers/own-redis.ts';
import { eventually, spawnWorld, request } from '../../tests/helpers/world.ts';
import type { Target } from './attacks/attack.ts';

/** The programs as operators run them, a good team with a metered key, and a hostile team. */
export type Neighbours = Awaited<ReturnType<typeof makeNeighbours>>;

const CREDITS = '9000000000';
const DRAINED_WITHIN_MS = 60_000;

/** Starts them on servers of the run, with a Redis of their own. */
export async function makeNeighbours() {
  const redis = await makeOwnRedis('neighbours', { maxmemory: '1gb' });
  const world = await spawnWorld(['verify', 'consumer'], {
    REDIS_URL: redis.url,
    TEST_FOLDER: process.env.TEST_FOLDER!,
    // The limits that operators have, not those of tests.
    FAILED_AUTH_PER_MINUTE: '100',
    CALLS_PER_SECOND: '1000',
  });
  // As the supervisor of a stack has it.
  for (const name of ['api', 'verify', 'consumer'] as const)
    if (ourProgram(name, name, 0, {}).yields) yieldCores(world[name]!.process.pid!);
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'good' }))).body;
  const key = await makeCustomers(world, workspace.id).meteredKey(CREDITS);
  const hostile = await world.newTeam();
  await eventually('the hostile token is in force', async () => {
    const { status } = await request(`${world.verify!.url}${VERIFY_PATH}`, 'post', { token: hostile.token, body: {} });
    return status === 400;
  });
  const record = keyspace.billing(meterShard(workspace.id, key.meter), workspace.id, key.meter);
  const [clickhouse, postgres] = ['clickhouse', 'postgres'].map((wanted) =>
    readRecords(dirname(process.env.TEST_FOLDER!)).find(({ name }) => name === wanted),
  );
  const pids = () => ({
    api: world.api.process.pid,
    verify: world.verify!.process.pid,
    consumer: world.consumer!.process.pid,
    redis: redis.pid(),
    clickhouse: clickhouse?.pid,
    postgres: postgres?.pid,
  });

  return {
    verifyUrl: world.verify!.url,
    good: { token: world.team.token, key: key.key },
    target: {
      apiUrl: world.api.url,
      verifyUrl: world.verify!.url,
      token: hostile.token,
    } satisfies Target,
    pids,
    /** The credits that the good team's key has used, in micro-credits. */
    usedByGood: async () => Number((await redis.admin.hget(record, 'u')) ?? 0),
    /** Waits until all events have left the outbox. */
    async drained() {
      const until = Date.now() + DRAINED_WITHIN_MS;
      while (Date.now() < until) {
        const lengths = await Promise.all(ALL_SHARDS.map((shard) => redis.admin.xlen(keyspace.outbox(shard))));
        if (lengths.every((length) => length === 0)) return;
        await sleep(100);
      }
    },
    async stop() {
      await world.stop();
      await redis.remove();
    },
  };
}
