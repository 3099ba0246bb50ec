// One hostile client at a time does its worst beside a good team: node bench/neighbours/main.ts [--seconds N] [--only part]
import '../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../../tests/runner/servers.ts';
import { attacks } from './attacks/attacks.ts';
import { measureNeighbours } from './measure.ts';
import { report } from './report.ts';

const LEAST_SECONDS = 2;

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '15' }, only: { type: 'string', default: '' } },
});
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  const seconds = Number(values.seconds);
  const chosen = Object.entries(attacks).filter(([name]) => name.includes(values.only));
  if (!(seconds >= LEAST_SECONDS) || chosen.length === 0)
    throw new StackError(
      `usage: main.ts [--seconds N, ${LEAST_SECONDS} or more] [--only part of: ${Object.keys(attacks).join(', ')}]`,
    );
  console.log(`${chosen.length} attacks, ${seconds} s each; starting servers`);
  const { servers } = await startTestServers(folder, console.log, { yielding: true });
  Object.assign(process.env, testEnvironment(servers, folder, 1), { TMPDIR: folder });
  const measured = await measureNeighbours({ attacks: chosen, seconds, say: console.log });
  const { text, missed } = report(measured);
  console.log(`\n${text}\n`);
  for (const line of missed) console.error(`MISSED  ${line}`);
  if (missed.length > 0) process.exitCode = 1;
}
