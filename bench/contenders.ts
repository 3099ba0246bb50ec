import { join } from 'node:path';
import { checkout } from '../apps/stack/process/home.ts';
import { freePorts } from '../apps/stack/process/ports.ts';
import { answersOk, type Program } from '../apps/stack/process/program.ts';
import { ourProgram } from '../apps/stack/servers/programs.ts';
import type { Contender } from './rounds.ts';
import type { Stage } from './stage.ts';
import { GATEWAY, type World } from './world.ts';
import type { Load } from './wrk.ts';

/** Two worlds of keys, the answer that bare servers give, and for how long a round runs. */
export type ContenderLoad = { small: World; large: World; answer: string; seconds: number };

/** What is compared with 64 connections (`many`), and with one (`few`). */
export type Contenders = { many: Contender[]; few: Contender[]; stop(): Promise<void> };

/** Starts each contender in a process of its own, since earlier calls shape the code that V8 compiles. */
export async function startContenders(
  stage: Stage,
  { small, large, answer, seconds }: ContenderLoad,
): Promise<Contenders> {
  const { supervisor } = stage;
  const names: string[] = [];

  async function start(program: Program, { bodies, token, clear }: World, load?: Partial<Load>): Promise<Contender> {
    const { name, port } = program;
    await supervisor.add(program);
    names.push(name);
    const { pid } = stage.records().find((one) => one.name === name)!;
    const url = `http://127.0.0.1:${port}`;
    return { name, pid, load: { url, bodies, token, connections: 64, seconds, ...load }, after: clear };
  }

  const [bare = 0, ping = 0, ofSmall = 0, ofLarge = 0, gateway = 0] = await freePorts(5);
  const verify = await start(ourProgram('verify', 'small', ofSmall, small.env), small);
  const many = [
    await start(bareProgram('bare', bare, answer), small),
    verify,
    await start(ourProgram('verify', 'large', ofLarge, large.env), large),
    await start(ourProgram('verify', 'gateway', gateway, small.env), small, { gateway: GATEWAY }),
  ];
  const few = [
    await start(bareProgram('bare-ping', ping, answer, small.redisUrl), small, { connections: 1 }),
    { ...verify, load: { ...verify.load, connections: 1 } },
  ];
  return {
    many,
    few,
    async stop() {
      for (const name of names) await supervisor.remove(name);
    },
  };
}

function bareProgram(name: string, port: number, answer: string, redisUrl?: string): Program {
  return {
    name,
    port,
    command: process.execPath,
    args: [join(checkout, 'bench/bare.ts')],
    env: { PATH: process.env.PATH, PORT: String(port), ANSWER: answer, ...(redisUrl && { REDIS_URL: redisUrl }) },
    isReady: () => answersOk(`http://127.0.0.1:${port}`),
    stopSignal: 'SIGTERM',
    stopWithinMs: 5_000,
  };
}
