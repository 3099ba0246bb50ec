import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import type { Contender } from '../rounds.ts';
import { benchProgram, type Stage } from '../stage.ts';
import { CONNECTIONS, GATEWAY, loadOf, type World } from '../world.ts';
import { load, type Load, type Round } from '../wrk.ts';
import type { AccountBodies } from './accounts.ts';
import { startPipeline, type Pipeline, type Row } from './pipeline.ts';

/** The processes whose CPU a row shows. `app` is the program that is called, where that is not verify; `others` are api, webhooks and Postgres. */
export const processes = ['app', 'verify', 'redis', 'consumer', 'clickhouse', 'others'] as const;

export const BARE = 'bare node:http';
export const IDLE = 'idle, each second';
export const ONE_CALL = 'one call a request';
export const BATCHES_OF_32 = 'batches of 32';
export const KOA = 'Koa app';
export const KOA_GUARDED = 'Koa app behind the guard';
export const ALL_LIMITS = 'four limits, three grants and two limits';
export const CAPTURE = 'a capture';
export const ALONE = 'client.verify, one at a time';

/** What rows are started with. `start` starts a program of the benchmark. */
type Scene = {
  world: World;
  bodies: AccountBodies;
  pipeline: Pipeline;
  answer: string;
  start(name: string, script: string, env: NodeJS.ProcessEnv): Promise<{ url: string; pid: number }>;
};

// More than one machine captures.
const CAPTURES_A_SECOND = 25_000;
// Captures that wrk began and did not count: two of each connection.
const MOST_UNDER_WAY = 128;
// Fewer than the 64 of single calls: 64 batches of 100 are more calls than verify decides at a time.
const BATCH_CONNECTIONS = 16;
const IDLE_FOR = 10;

const rows: Record<string, (scene: Scene) => Promise<Row>> = {
  [BARE]: bare,
  [IDLE]: async ({ pipeline: { pids } }) => ({ pids, load: idle }),
  '100 calls a second': async (scene) => paced(scene, 100),
  '1,000 calls a second': async (scene) => paced(scene, 1_000),
  '5,000 calls a second': async (scene) => paced(scene, 5_000),
  [ONE_CALL]: async (scene) => verifying(scene),
  [BATCHES_OF_32]: async (scene) => verifying(scene, { batch: 32, connections: BATCH_CONNECTIONS }),
  'a key with four limits': async (scene) => verifying(scene, { bodies: scene.bodies.limits }),
  'a record with three grants': async (scene) => verifying(scene, { bodies: scene.bodies.grants }),
  [ALL_LIMITS]: async (scene) => verifying(scene, { bodies: scene.bodies.all }),
  'a hold': async (scene) => verifying(scene, { bodies: scene.bodies.holds }),
  [CAPTURE]: async (scene) => captures(scene),
  'endpoint for gateways': async (scene) => verifying(scene, { also: { GATEWAY } }),
  [KOA]: (scene) => app(scene),
  [KOA_GUARDED]: guardedApp,
  [ALONE]: alone,
};

/** The names of all rows, in their order. */
export const rowNames = Object.keys(rows);

/** Starts what the named rows measure, each in a process of its own, and the pipeline behind them. */
export async function startRows(stage: Stage, names: string[], given: Pick<Scene, 'world' | 'bodies' | 'answer'>) {
  const started: string[] = [];
  const pipeline = await startPipeline(stage, given.world);
  const scene: Scene = {
    ...given,
    pipeline,
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

/** Nobody calls, for longer: each second counts as a call. */
async function idle(seconds: number): Promise<Round> {
  const idleSeconds = IDLE_FOR * seconds;
  await sleep(1_000 * idleSeconds);
  return { calls: idleSeconds, perSecond: 0, p50Us: 0, p99Us: 0 };
}

/** So many calls a second in all: each connection waits before each of its calls. */
function paced(scene: Scene, perSecond: number): Row {
  return verifying(scene, { also: { DELAY_MS: String(Math.round((1_000 * CONNECTIONS) / perSecond)) } });
}

function captures({ world, bodies, pipeline }: Scene): Row {
  const holds = `${bodies.holds}-ids`;
  const open = wrkOf(world, pipeline.url, {
    bodies: bodies.holds,
    batch: 32,
    connections: BATCH_CONNECTIONS,
    also: { KEEP_HOLDS: holds },
  });
  const capture = wrkOf(world, pipeline.url, { also: { CAPTURES: holds } });
  let captured = 0;
  return pipeline.verifying({
    pids: {},
    async prepare(seconds) {
      // A record has a limit of open holds, so those that are left are captured first.
      const left = captured > 0 ? readFileSync(holds, 'utf8').split('\n').slice(captured, -1) : [];
      writeFileSync(holds, left.map((id) => `${id}\n`).join(''));
      for (let count = left.length; count < CAPTURES_A_SECOND * seconds;) {
        const { valid } = await open(seconds);
        if (valid === 0) throw new StackError('no more holds can be opened');
        count += valid;
      }
    },
    async load(seconds) {
      const round = await capture(seconds);
      captured = round.calls + MOST_UNDER_WAY;
      return round;
    },
  });
}

async function app({ world, start }: Scene, env: NodeJS.ProcessEnv = {}): Promise<Row> {
  const { url, pid } = await start(env.VERIFY_URL ? 'app-guarded' : 'app', 'costs/app.ts', env);
  return { pids: { app: pid }, load: wrkOf(world, url, { also: { CALLED: '/users' } }) };
}

async function guardedApp(scene: Scene): Promise<Row> {
  const { pipeline, world } = scene;
  return pipeline.verifying(await app(scene, { VERIFY_URL: pipeline.url, TOKEN: world.token }));
}

async function alone({ world, pipeline, start }: Scene): Promise<Row> {
  const env = { VERIFY_URL: pipeline.url, TOKEN: world.token, BODIES: world.bodies };
  const { url, pid } = await start('lone-client', 'costs/lone-client.ts', env);
  const load = async (seconds: number) => (await (await fetch(`${url}/?seconds=${seconds}`)).json()) as Round;
  return pipeline.verifying({ pids: { app: pid }, load });
}

function wrkOf(world: World, url: string, how: Partial<Load> = {}) {
  return (seconds: number) => load({ ...loadOf(world, url), seconds, ...how });
}
