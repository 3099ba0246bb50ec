import { table } from '../../../shared/values/table.ts';
import { findSupervisor, type Home } from '../process/home.ts';
import { readRecords, type Recorded } from '../process/leftovers.ts';
import { answersOk } from '../process/program.ts';
import { processNames } from '../servers/programs.ts';

/** Prints a line for each process. Gives 0 if all of them run and are ready, else 1. */
export async function status(home: Home): Promise<number> {
  const supervisor = findSupervisor(home);
  const records = readRecords(home.folder);
  if (!supervisor && records.length === 0) {
    console.log(`keytally is not running in ${home.folder}`);
    return 1;
  }
  const names = new Set([...processNames(home.bus), ...records.map(({ name }) => name)]);
  const states = await Promise.all([...names].map(async (name) => describe(name, records)));
  const rows = states.map(({ name, one, state }) => {
    const { pid = '-', port = '-', since = '' } = one ?? {};
    return [name, String(pid), String(port), state, since];
  });
  console.log(table(['process', '>pid', '>port', 'state', 'since'], rows));
  if (!supervisor) console.log('\nthe supervisor is gone: a process that ends is not started again. Run make up');
  return supervisor && states.every(({ state }) => state === 'ready' || state === 'running') ? 0 : 1;
}

async function describe(name: string, records: Recorded[]) {
  const one = records.find((candidate) => candidate.name === name);
  if (!one) return { name, one, state: 'down' };
  if (['postgres', 'redis', 'kafka'].includes(name)) return { name, one, state: 'running' };
  const path = name === 'clickhouse' ? 'ping' : 'readyz';
  return { name, one, state: (await answersOk(`http://127.0.0.1:${one.port}/${path}`)) ? 'ready' : 'not ready' };
}
