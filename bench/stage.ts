import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { readRecords, type Recorded } from '../apps/stack/process/leftovers.ts';
import { makeSupervisor, type Supervisor } from '../apps/stack/process/supervisor.ts';
import { startTestServers, type TestServers } from '../tests/runner/servers.ts';

/** The servers of a benchmark, and a supervisor for the programs that it measures. */
export type Stage = {
  folder: string;
  servers: TestServers['servers'];
  supervisor: Supervisor;
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
  return { folder: own, servers, supervisor, records: () => [...readRecords(folder), ...readRecords(own)] };
}
