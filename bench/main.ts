// Measures on this machine, beside a bare server in the same run, what a verification costs each process (costs), and how fast and
// exact verify is (speed): node bench/main.ts [--only PART-OF-A-NAME]… [--rounds N] [--seconds N]
import '../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { runInTestFolder } from '../tests/runner/servers.ts';
import { measureCosts } from './costs/measure.ts';
import { BARE, KOA, KOA_GUARDED, rowNames } from './costs/rows.ts';
import { printFigures, type Part } from './results.ts';
import { measureSpeed } from './speed.ts';
import { makeStage } from './stage.ts';
import { ensureWrk } from './wrk.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    rounds: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '3' },
  },
});
// Luck (where a process's memory lies, in which order V8 compiled its code) is worth a tenth, and stays with a process.
const PROCESSES = 3;
const SPEED = 'speed';
const costsName = (row: string) => `costs: ${row}`;

await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  if (!(rounds >= 1 && Number.isInteger(seconds) && seconds >= 1)) {
    throw new StackError('rounds and seconds are whole numbers from 1 on');
  }
  const isWanted = (name: string) => values.only.length === 0 || values.only.some((part) => name.includes(part));
  const rows = rowNames.filter((row) => isWanted(costsName(row)));
  if (rows.length === 0 && !isWanted(SPEED)) {
    throw new StackError(`nothing is named like that; there are ${[...rowNames.map(costsName), SPEED].join(', ')}`);
  }
  const began = performance.now();
  await ensureWrk(console.log);
  const stage = await makeStage(folder);
  const howLong = { rounds, seconds, processes: Math.min(PROCESSES, rounds) };
  const parts: Part[] = [];
  // The bare server is what all others are compared with, and the app without a guard the one behind it.
  const compared = [BARE, ...(rows.includes(KOA_GUARDED) ? [KOA] : [])];
  if (rows.length > 0) parts.push(await measureCosts(stage, [...new Set([...compared, ...rows])], howLong));
  if (isWanted(SPEED)) parts.push(await measureSpeed(stage, howLong));
  await stage.supervisor.stop([]);

  const good = printFigures(parts.flatMap(({ figures }) => figures));
  for (const { table } of parts) if (table) console.log(`\n${table}`);
  console.log(`\nmeasured in ${((performance.now() - began) / 60_000).toFixed(1)} minutes`);
  if (!good) process.exitCode = 1;
}
