import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../apps/stack/process/home.ts';
import { readRecords, type Recorded } from '../apps/stack/process/leftovers.ts';
import { answersOk, type Program } from '../apps/stack/process/program.ts';
import { makeSupervisor, type Supervisor } from '../apps/stack/process/supervisor.ts';
import { startTestServers, type TestServers } from '../tests/runner/servers.ts';

/** The servers of a benchmark, and a supervisor for the programs that it measures. */
export type Stage = {
  folder: string;
  servers: TestServers['servers'];
  supervisor: Supervisor;
  /** Starts a program, and gives its process id. */
  start(program: Program): Promise<number>;
  /** The process id of a server or a program that runs. */
  pidOf(name: string): number;
  /** Every process of the benchmark. */
  records(): Recorded[];
};

/** Starts the servers of a benchmark. */
export async function makeStage(folder: string): Promise<Stage> {
  const own = join(folder, 'bench');
  mkdirSync(own);
  const say = (line: string) => /again/.test(line) && console.error(`keytally: ${line}`);
  const supervisor = makeSupervisor({ folder: own, logFile: (name) => join(own, `${name}.log`), say });
  const { servers } = await startTestServers(folder, console.log);
  const records = () => [...readRecords(folder), ...readRecords(own)];
  const pidOf = (name: string) => records().find((one) => one.name === name)!.pid;
  return {
    folder: own,
    servers,
    supervisor,
    async start(program) {
      await supervisor.add(program);
      return pidOf(program.name);
    },
    pidOf,
    records,
  };
}

/** A program of the benchmark itself. It is ready once it answers. */
export function benchProgram(name: string, script: string, port: number, env: NodeJS.ProcessEnv): Program {
  return {
    name,
    port,
    command: process.execPath,
    args: [join(checkout, 'bench', script)],
    env: { PATH: process.env.PATH, PORT: String(port), ...env },
    isReady: () => answersOk(`http://127.0.0.1:${port}`),
    stopWithinMs: 5_000,
  };
}
