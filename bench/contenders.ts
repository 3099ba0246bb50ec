import { join } from 'node:path';
import { checkout } from '../apps/stack/process/home.ts';
import { freePorts } from '../apps/stack/process/ports.ts';
import { answersOk, type Program } from '../apps/stack/process/program.ts';
import { ourProgram } from '../apps/stack/servers/programs.ts';
import type { Contender } from './rounds.ts';
import type { Stage } from './stage.ts';
import { GATEWAY, type World } from './world.ts';
import { load, type Load } from './wrk.ts';

/** Two worlds of keys, and the answer that bare servers give. */
export type ContenderWorlds = { small: World; large: World; answer: string };

/** What is compared with 64 connections (`many`), and with one (`few`). */
export type Contenders = { many: Contender[]; few: Contender[]; stop(): Promise<void> };

/** Starts each contender in a process of its own, since earlier calls shape the code that V8 compiles. */
export async function startContenders(stage: Stage, { small, large, answer }: ContenderWorlds): Promise<Contenders> {
  const [bare = 0, ping = 0, ofSmall = 0, ofLarge = 0, gateway = 0] = await freePorts(5);
  const programs = {
    bare: benchProgram('bare', 'bare.ts', bare, { ANSWER: answer }),
    ping: benchProgram('bare-ping', 'bare.ts', ping, { ANSWER: answer, REDIS_URL: small.redisUrl }),
    small: ourProgram('verify', 'small', ofSmall, small.env),
    large: ourProgram('verify', 'large', ofLarge, large.env),
    gateway: ourProgram('verify', 'gateway', gateway, small.env),
  };
  for (const program of Object.values(programs)) await stage.start(program);

  const contender = ({ name, port }: Program, world: World, how: Partial<Load> = {}): Contender => ({
    name,
    pids: { server: stage.pidOf(name) },
    load: (seconds) => load({ ...loadOf(world, `http://127.0.0.1:${port}`), seconds, ...how }),
    settle: world.clear,
  });
  return {
    many: [
      contender(programs.bare, small),
      contender(programs.small, small),
      contender(programs.large, large),
      contender(programs.gateway, small, { gateway: GATEWAY }),
    ],
    few: [contender(programs.ping, small, { connections: 1 }), contender(programs.small, small, { connections: 1 })],
    async stop() {
      for (const { name } of Object.values(programs)) await stage.supervisor.remove(name);
    },
  };
}

/** The load that most contenders get: the bodies of a world over 64 connections. */
export function loadOf({ bodies, token }: Pick<World, 'bodies' | 'token'>, url: string): Omit<Load, 'seconds'> {
  return { url, bodies, token, connections: 64 };
}

/** A program of the benchmark itself. It is ready once it answers. */
export function benchProgram(name: string, script: string, port: number, env: NodeJS.ProcessEnv): Program {
  return {
    name,
    port,
    command: script.endsWith('.py') ? 'python3' : process.execPath,
    args: [join(checkout, 'bench', script)],
    env: { PATH: process.env.PATH, PORT: String(port), ...env },
    isReady: () => answersOk(`http://127.0.0.1:${port}`),
    stopSignal: 'SIGTERM',
    stopWithinMs: 5_000,
  };
}
