import { table } from '../../shared/values/table.ts';
import { number, ms, type HowLong, type Part } from '../results.ts';
import { mediansOf, runRounds, type Seen } from '../rounds.ts';
import type { Stage } from '../stage.ts';
import { answerOf, makeWorld } from '../world.ts';
import { makeAccountKeys, type AccountBodies } from './accounts.ts';
import { costFigures, wholeUs, type Costs } from './figures.ts';
import { BARE, processes, startRows } from './rows.ts';

/** Measures what a verification costs each process, from the program that asks to the books, in each of the named ways. */
export async function measureCosts(
  stage: Stage,
  names: string[],
  { rounds, seconds, processes }: HowLong,
): Promise<Part> {
  let bodies: AccountBodies | undefined;
  const world = await makeWorld(stage, 'costs', 1_000, async (client, workspaceId) => {
    bodies = await makeAccountKeys(client, workspaceId, stage.folder);
  });
  const answer = await answerOf(world);
  // Half as many as where speeds are compared: they take longer, and a neighbour on the machine moves CPU time less than speed.
  const ofEach = { rounds: Math.ceil(rounds / processes / 2), seconds };
  const seen: Seen[] = [];
  for (let one = 1; one <= processes; one++) {
    const { contenders, stop } = await startRows(stage, names, { world, bodies: bodies!, answer });
    seen.push(await runRounds(`costs, process ${one} of ${processes}`, contenders, ofEach));
    await stop();
  }
  const costs = mediansOf(seen);
  return { figures: costFigures(costs), table: costsTable(costs) };
}

/** The CPU of each process per verification as a table, in µs and in requests of the bare server. */
function costsTable(costs: Costs): string {
  const bareUs = wholeUs(costs.get(BARE)!);
  const cell = (us: number | undefined) => (us === undefined ? '' : `${us.toFixed(1)} (${(us / bareUs).toFixed(2)})`);
  const rows = [...costs].map(([name, cost]) => [
    name,
    ...processes.map((one) => cell(cost.cpuUs[one])),
    cell(wholeUs(cost)),
    number(cost.perSecond),
    ms(cost.p50Us),
    ms(cost.p99Us),
  ]);
  const columns = [...processes.map((one) => `>${one}`), '>all', '>calls/s', '>p50', '>p99'];
  const title =
    'CPU per verification in µs (in requests of bare node:http), the whole pipeline running, drain included';
  return `${title}\n${table(['', ...columns], rows)}`;
}
