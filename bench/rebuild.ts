// Measures how fast a Redis that lost everything is filled again, on servers of its own: node bench/rebuild.ts [--keys N]
import '../shared/runtime/require-node.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { ALL_SHARDS } from '../shared/values/key-text.ts';
import { openShards } from '../shared/stores/fence.ts';
import { showProgress } from './watch.ts';
import { makeStage } from './stage.ts';
import { answerOf, makeWorld, type World } from './world.ts';
import { StackError } from '../apps/stack/process/errors.ts';
import { checkout } from '../apps/stack/process/home.ts';
import { freePorts } from '../apps/stack/process/ports.ts';
import { ourProgram } from '../apps/stack/servers/programs.ts';
import { runInTestFolder } from '../tests/runner/servers.ts';

const LOOK_EVERY_MS = 100;
const SEARCHED_MS = 500;

const { values } = parseArgs({ options: { keys: { type: 'string', default: '1000000' } } });
const keys = Number(values.keys);
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(keys >= 1_000)) throw new StackError('usage: bench-rebuild.ts [--keys N, 1000 or more]');
  console.log(`${keys.toLocaleString('en')} keys into an empty Redis; starting servers`);
  const stage = await makeStage(folder);
  const world = await makeWorld(stage, 'rebuild', keys);
  const [api = 0, consumer = 0] = await freePorts(2);
  await stage.supervisor.add(ourProgram('api', 'api', api, world.env));
  await stage.supervisor.add(ourProgram('consumer', 'consumer', consumer, { ...world.env, CONSUMER_NAME: 'consumer' }));

  report('emptied, and filled again by the api', await emptied(world));
  const began = performance.now();
  const tool = spawn(process.execPath, [join(checkout, 'apps/api/commands/rebuild.ts')], {
    env: world.env,
    stdio: 'inherit',
  });
  const [code] = (await once(tool, 'exit')) as [number];
  if (code !== 0) throw new StackError(`the rebuild ended with ${code}`);
  report('by hand', performance.now() - began);
  await stage.supervisor.stop([]);
}

/** Empties Redis; gives the time until every shard is open again, in ms. */
async function emptied(world: World): Promise<number> {
  const began = performance.now();
  // Asynchronously: with so many keys a plain FLUSHALL would answer too late.
  await world.redis.node(0).client.flushall('ASYNC');
  for (;;) {
    await sleep(LOOK_EVERY_MS);
    const open = (await openShards(world.redis, SEARCHED_MS)).size;
    showProgress('shards open', open, ALL_SHARDS.length);
    if (open === ALL_SHARDS.length) break;
  }
  const tookMs = performance.now() - began;
  const answer = await answerOf(world);
  if (!answer.includes('"VALID"')) throw new StackError(`a key that was brought back is not VALID: ${answer}`);
  return tookMs;
}

function report(what: string, tookMs: number): void {
  const perSecond = Math.round((1000 * keys) / tookMs).toLocaleString('en');
  console.log(`${what}: ${(tookMs / 1000).toFixed(1)} s, ${perSecond} keys a second`);
}
