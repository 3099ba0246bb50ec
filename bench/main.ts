// Measures on this machine, beside a bare server in the same run, what a verification costs each process (costs), and how fast and
// exact verify is, and its peers are (speed):
// node bench/main.ts [--only PART-OF-A-NAME]… [--rounds N] [--seconds N] [--keys N] [--no-peers] [--charts FOLDER]
import '../shared/runtime/require-node.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { StackError } from '../apps/stack/process/errors.ts';
import { runInTestFolder } from '../tests/runner/servers.ts';
import { ensureWrk } from './install-wrk.ts';
import { measureCosts } from './costs/measure.ts';
import { BARE, languages, rowNames, withBareApps } from './costs/rows.ts';
import type { Part } from './part.ts';
import { printFigures } from './results.ts';
import { measureSpeed } from './speed.ts';
import { makeStage } from './stage.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    rounds: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '3' },
    keys: { type: 'string', default: '1000000' },
    charts: { type: 'string' },
    'no-peers': { type: 'boolean', default: false },
  },
});
// Luck (where a process's memory lies, in which order V8 compiled its code) is worth a tenth, and stays with a process.
const PROCESSES = 3;
const SPEED = 'speed';
const costsName = (row: string) => `costs: ${row}`;

await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  const [rounds, seconds, keys] = [Number(values.rounds), Number(values.seconds), Number(values.keys)];
  if (!(rounds >= 1 && Number.isInteger(seconds) && seconds >= 1 && keys >= 1_000)) {
    throw new StackError('rounds and seconds are whole numbers from 1 on, keys at least 1000');
  }
  const isWanted = (name: string) => values.only.length === 0 || values.only.some((part) => name.includes(part));
  const rows = await measurable(withBareApps(rowNames.filter((row) => isWanted(costsName(row)))));
  if (rows.length === 0 && !isWanted(SPEED)) {
    throw new StackError(`nothing is named like that; there are ${[...rowNames.map(costsName), SPEED].join(', ')}`);
  }
  const began = performance.now();
  await ensureWrk(console.log);
  const stage = await makeStage(folder);
  const howLong = { rounds, seconds, processes: Math.min(PROCESSES, rounds) };
  const parts: Part[] = [];
  // The bare server is what all others are compared with.
  if (rows.length > 0) parts.push(await measureCosts(stage, [...new Set([BARE, ...rows])], howLong));
  if (isWanted(SPEED)) parts.push(await measureSpeed(stage, { ...howLong, keys, withPeers: !values['no-peers'] }));
  await stage.supervisor.stop([]);

  const good = printFigures(parts.flatMap(({ figures }) => figures));
  for (const part of parts) part.print();
  for (const [name, svg] of parts.flatMap(({ charts }) => Object.entries(charts))) {
    if (values.charts) writeFileSync(join(values.charts, name), svg);
  }
  console.log(`\nmeasured in ${((performance.now() - began) / 60_000).toFixed(1)} minutes`);
  if (!good || parts.some(({ exact }) => !exact)) process.exitCode = 1;
}

/** The rows whose languages are there; says which are left out. */
async function measurable(rows: string[]): Promise<string[]> {
  let left = rows;
  for (const { what, isOf, ensure } of languages) {
    if (!left.some(isOf)) continue;
    try {
      await ensure(console.log);
    } catch (error) {
      if (!(error instanceof StackError)) throw error;
      console.error(`****  NOT MEASURED, for want of ${what} (${error.message}): ${left.filter(isOf).join(', ')}`);
      left = left.filter((row) => !isOf(row));
    }
  }
  return left;
}
