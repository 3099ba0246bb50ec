import { freePorts } from '../../apps/stack/process/ports.ts';
import { benchProgram, loadOf } from '../contenders.ts';
import type { Contender } from '../rounds.ts';
import type { Stage } from '../stage.ts';
import { GATEWAY, type World } from '../world.ts';
import { load, type Load, type Round } from '../wrk.ts';
import { startPipeline, type Pipeline, type Row } from './pipeline.ts';

/** The processes whose CPU a row shows. `app` is the program that is called, where that is not verify. */
export const processes = ['app', 'verify', 'redis', 'consumer', 'clickhouse'] as const;

export const BARE = 'bare node:http';
export const ONE_CALL = 'one call a request';
export const BATCHES_OF_32 = 'batches of 32';
export const KOA = 'Koa app';
export const EXPRESS = 'Express app';
export const ALONE = 'client.verify, one at a time';
/** The name of an app behind its guard. */
export const guarded = (app: string) => `${app} behind the guard`;

/** What rows are started with. `start` starts a program of the benchmark. */
type Scene = {
  world: World;
  pipeline: Pipeline;
  answer: string;
  start(name: string, script: string, env: NodeJS.ProcessEnv): Promise<{ url: string; pid: number }>;
};

// Fewer than the 64 of single calls: 64 batches of 100 are more calls than verify decides at a time.
const BATCH_CONNECTIONS = 16;

const rows: Record<string, (scene: Scene) => Promise<Row>> = {
  [BARE]: bare,
  [ONE_CALL]: async (scene) => verifying(scene),
  'batches of 8': async (scene) => batches(scene, 8),
  [BATCHES_OF_32]: async (scene) => batches(scene, 32),
  'batches of 100': async (scene) => batches(scene, 100),
  'endpoint for gateways': async (scene) => verifying(scene, { gateway: GATEWAY }),
  [KOA]: (scene) => app(scene, 'koa'),
  [guarded(KOA)]: (scene) => guardedApp(scene, 'koa'),
  [EXPRESS]: (scene) => app(scene, 'express'),
  [guarded(EXPRESS)]: (scene) => guardedApp(scene, 'express'),
  [ALONE]: alone,
};

/** The names of all rows, in their order. */
export const rowNames = Object.keys(rows);

/** Starts what the named rows measure, each in a process of its own, and the pipeline behind them. */
export async function startRows(stage: Stage, world: World, names: string[], answer: string) {
  const started: string[] = [];
  const pipeline = await startPipeline(stage, world);
  const scene: Scene = {
    world,
    pipeline,
    answer,
    async start(name, script, env) {
      const [port = 0] = await freePorts(1);
      started.push(name);
      const pid = await stage.start(benchProgram(name, script, port, env));
      return { url: `http://127.0.0.1:${port}`, pid };
    },
  };
  const contenders: Contender[] = [];
  for (const name of names) contenders.push({ name, ...(await rows[name]!(scene)) });
  return {
    contenders,
    async stop() {
      for (const name of started) await stage.supervisor.remove(name);
      await pipeline.stop();
    },
  };
}

async function bare({ world, answer, start }: Scene): Promise<Row> {
  const { url, pid } = await start('costs-bare', 'bare.ts', { ANSWER: answer });
  return { pids: { app: pid }, load: wrkOf(world, url) };
}

function verifying({ world, pipeline }: Scene, how: Partial<Load> = {}): Row {
  return pipeline.verifying({ pids: {}, load: wrkOf(world, pipeline.url, how) });
}

function batches(scene: Scene, batch: number): Row {
  return verifying(scene, { batch, connections: BATCH_CONNECTIONS });
}

async function app({ world, start }: Scene, framework: string, env: NodeJS.ProcessEnv = {}): Promise<Row> {
  const name = `${framework}${env.VERIFY_URL ? '-guarded' : ''}`;
  const { url, pid } = await start(name, 'costs/app.ts', { ...env, FRAMEWORK: framework });
  return { pids: { app: pid }, load: wrkOf(world, url, { path: '/users' }) };
}

async function guardedApp(scene: Scene, framework: string): Promise<Row> {
  const { pipeline, world } = scene;
  return pipeline.verifying(await app(scene, framework, { VERIFY_URL: pipeline.url, TOKEN: world.token }));
}

async function alone({ world, pipeline, start }: Scene): Promise<Row> {
  const env = { VERIFY_URL: pipeline.url, TOKEN: world.token, BODIES: world.bodies };
  const { url, pid } = await start('lone-client', 'costs/lone-client.ts', env);
  const load = async (seconds: number) => (await (await fetch(`${url}/?seconds=${seconds}`)).json()) as Round;
  return pipeline.verifying({ pids: { app: pid }, load });
}

function wrkOf(world: World, url: string, how: Partial<Load> = {}): Row['load'] {
  return (seconds) => load({ ...loadOf(world, url), seconds, ...how });
}
