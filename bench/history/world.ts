import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { systemClock } from '../../shared/runtime/clock.ts';
import { readRecords } from '../../apps/stack/process/leftovers.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { meterShard } from '../../shared/stores/keyspace.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectRedis, type ShardedRedis } from '../../shared/stores/redis.ts';
import { makeCustomers, must, type Customers } from '../../tests/helpers/customers.ts';
import { makeOwnRedis, type OwnRedis } from '../../tests/helpers/own-redis.ts';
import { spawnWorld, type ProcessWorld } from '../../tests/helpers/world.ts';
import { watchMemory } from './memory.ts';
import { startOthers, type Others } from './others.ts';
import type { HistoryPlan } from './plan.ts';

/** The record with a long history. */
export type BigRecord = { id: string; keyId: string; key: string; meter: string; shard: number };

/** What the operations on a long history are measured in: servers and programs of their own, and other records' traffic. */
export type HistoryWorld = {
  world: ProcessWorld;
  workspaceId: string;
  customers: Customers;
  redis: OwnRedis;
  shards: ShardedRedis;
  books: Books;
  /** A client of the books with time for what is not measured. */
  setup: ClickHouseClient;
  plan: HistoryPlan;
  big: BigRecord;
  others: Others;
  memory: ReturnType<typeof watchMemory>;
  /** Runs one of our commands to its end. */
  command(name: 'rebuild' | 'reconcile', signal: AbortSignal): Promise<{ code: number; output: string }>;
  /** Kills the api and starts it again at its address. */
  restartApi(): Promise<void>;
  stop(): Promise<void>;
};

const SETUP_WITHIN_MS = 600_000;
const CREDITS = '9000000000';

/** Starts the programs on servers of the run, with a Redis of its own, and makes the record. */
export async function makeHistoryWorld(plan: HistoryPlan): Promise<HistoryWorld> {
  const redis = await makeOwnRedis('history');
  const world = await spawnWorld(['verify', 'consumer'], {
    REDIS_URL: redis.url,
    // By this the run finds the programs when it is cut off.
    TEST_FOLDER: process.env.TEST_FOLDER!,
  });
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'history' }))).body;
  const customers = makeCustomers(world, workspace.id);
  const big = await makeBigRecord(customers, workspace.id);
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const setup = createClient({
    url: world.env.CLICKHOUSE_URL!,
    request_timeout: SETUP_WITHIN_MS,
    log: { level: ClickHouseLogLevel.OFF },
  });
  const shards = connectRedis(redis.url, makeLogger('history', 'silent'), systemClock);
  await shards.connected(60_000);
  const others = await startOthers(customers, books, workspace.id, big.shard);
  let { api } = world;
  const [clickhouse] = readRecords(dirname(process.env.TEST_FOLDER!)).filter(({ name }) => name === 'clickhouse');
  const memory = watchMemory(() => ({ api: api.process.pid, clickhouse: clickhouse?.pid }));

  return {
    world,
    workspaceId: workspace.id,
    customers,
    redis,
    shards,
    books,
    setup,
    plan,
    big,
    others,
    memory,
    command: (name, signal) => runCommand(name, world.env, signal),
    async restartApi() {
      const { port } = new URL(api.url);
      await api.stop('SIGKILL');
      api = await world.start('api', { PORT: port });
    },
    async stop() {
      memory.stop();
      await others.stop();
      await Promise.all([books.close(), setup.close(), shards.close()]);
      await world.stop();
      await redis.remove();
    },
  };
}

async function makeBigRecord(customers: Customers, workspaceId: string): Promise<BigRecord> {
  const { id: keyId, key, meter } = await customers.meteredKey(CREDITS);
  const { id } = await customers.billing(meter);
  return { id, keyId, key, meter, shard: meterShard(workspaceId, meter) };
}

async function runCommand(name: string, env: Record<string, string>, signal: AbortSignal) {
  const path = join(checkout, `apps/api/commands/${name}.ts`);
  const child = spawn(process.execPath, [path], { env, signal, killSignal: 'SIGKILL' });
  child.on('error', () => {});
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? 1, output };
}
