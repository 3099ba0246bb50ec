// Measures how a Redis that lost everything is filled again, and what a record with a long history costs then, on servers of its
// own: node bench/rebuild.ts [--keys N] [--events N]
import '../shared/runtime/require-node.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { checkout } from '../apps/stack/process/home.ts';
import { freePorts } from '../apps/stack/process/ports.ts';
import { ourProgram } from '../apps/stack/servers/programs.ts';
import { keytally } from '../clients/node/index.ts';
import { openShards } from '../shared/stores/fence.ts';
import { formatCredits } from '../shared/values/credits.ts';
import { ALL_SHARDS } from '../shared/values/key-text.ts';
import { runInTestFolder } from '../tests/runner/servers.ts';
import { insertHistory, usedMicros, type LongRecord } from './history.ts';
import { number, printFigures, type Figure } from './results.ts';
import { makeStage } from './stage.ts';
import { peakOf, resetPeak, showProgress } from './watch.ts';
import { makeWorld, type World } from './world.ts';

type Run = { tookMs: number; peaks: { api: number; clickhouse: number } };

const LOOK_EVERY_MS = 100;
/** The most that the api and ClickHouse may take, in MB. */
const MOST_MB = { api: 512, clickhouse: 3_072 };
// Measured: 42 bytes an event, and as much again while parts are merged.
const BYTES_PER_EVENT = 100;

const { values } = parseArgs({
  options: { keys: { type: 'string', default: '1000000' }, events: { type: 'string', default: '100000000' } },
});
const [keys, events] = [Number(values.keys), Number(values.events)];
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(keys >= 1_000 && events >= 1_000))
    throw new StackError('usage: rebuild.ts [--keys N, 1000 or more] [--events N, 1000 or more]');
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < events * BYTES_PER_EVENT)
    throw new StackError(`${folder} has too little room: ${Math.ceil((events * BYTES_PER_EVENT) / 1e9)} GB are needed`);
  console.log(`${number(keys)} keys and a record with ${number(events)} events; starting servers`);
  const stage = await makeStage(folder);
  let record: LongRecord | undefined;
  const world = await makeWorld(stage, 'rebuild', keys, async (client, workspaceId) => {
    const meter = { workspaceId, externalMeterId: 'long' };
    const { billing } = await client.billing.create({ ...meter, totalCredits: '9000000000' });
    const { apiKey } = await client.apiKeys.create({ ...meter, name: 'long' });
    record = { workspaceId, billingId: billing.id, keyId: apiKey.id, key: apiKey.key };
  });
  await insertHistory(world.env, record!, events);
  const [api = 0, consumer = 0] = await freePorts(2);
  const pids = {
    api: await stage.start(ourProgram('api', 'api', api, world.env)),
    clickhouse: stage.pidOf('clickhouse'),
  };
  await stage.start(ourProgram('consumer', 'consumer', consumer, { ...world.env, CONSUMER_NAME: 'consumer' }));

  const measured = async (work: () => Promise<void>): Promise<Run> => {
    for (const pid of Object.values(pids)) resetPeak(pid);
    const began = performance.now();
    await work();
    return {
      tookMs: performance.now() - began,
      peaks: { api: peakOf(pids.api), clickhouse: peakOf(pids.clickhouse) },
    };
  };
  const runs = {
    'emptied, and filled again by the api': await measured(() => emptied(world, record!)),
    'make rebuild': await measured(() => command(world, 'rebuild')),
    'make reconcile': await measured(() => command(world, 'reconcile')),
  };
  await requireUsed(world, record!);
  await stage.supervisor.stop([]);
  if (!printFigures(Object.entries(runs).flatMap(([what, run]) => figuresOf(what, run)))) process.exitCode = 1;
}

function figuresOf(what: string, { tookMs, peaks }: Run): Figure[] {
  // A second for each 30,000 keys: on two cores the api fills 50,000, and `make rebuild` 40,000.
  const seconds = { value: tookMs / 1000, must: 10 + keys / 30_000, aim: 10 + keys / 60_000 };
  const seen = `${number((1000 * keys) / tookMs)} keys a second`;
  return [
    { what: `${what}, seconds`, ...seconds, lessIsBetter: true, seen },
    ...(['api', 'clickhouse'] as const).flatMap((name) => {
      const [value, must] = [peaks[name], MOST_MB[name]];
      const memory = { what: `${what}, MB of ${name}`, value, must, aim: must / 2, lessIsBetter: true };
      return Number.isNaN(value) ? [] : [memory];
    }),
  ];
}

/** Empties Redis, and waits until every shard is open again. */
async function emptied(world: World, record: LongRecord): Promise<void> {
  // Asynchronously: with so many keys a plain FLUSHALL would answer too late.
  await world.redis.node(0).client.flushall('ASYNC');
  for (let open = 0; open < ALL_SHARDS.length;) {
    await sleep(LOOK_EVERY_MS);
    open = (await openShards(world.redis, 1_000)).size;
    showProgress('shards open', open, ALL_SHARDS.length);
  }
  await requireUsed(world, record);
}

/** The record's key is VALID, and its used credits are right to the last micro-credit. */
async function requireUsed({ url, token }: World, { key }: LongRecord): Promise<void> {
  const { status, billing } = await keytally({ url, token, verifyTimeoutMs: 10_000 }).verify({ key });
  const [used, wanted] = [billing?.usedCredits, formatCredits(usedMicros(events))];
  if (status !== 'VALID' || used !== wanted) throw new StackError(`${status}, ${used} used in place of ${wanted}`);
}

async function command({ env }: World, name: 'rebuild' | 'reconcile'): Promise<void> {
  const path = join(checkout, `apps/api/commands/${name}.ts`);
  const [code] = (await once(spawn(process.execPath, [path], { env, stdio: 'inherit' }), 'exit')) as [number];
  if (code !== 0) throw new StackError(`${name} ended with ${code}`);
}
