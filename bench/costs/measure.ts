import type { HowLong, Part } from '../part.ts';
import { mediansOf, runRounds, type Seen } from '../rounds.ts';
import type { Stage } from '../stage.ts';
import { answerOf, makeWorld } from '../world.ts';
import { makeAccountKeys, type AccountBodies } from './accounts.ts';
import { costFigures } from './figures.ts';
import { costsTable, drawCosts, guardsTable } from './report.ts';
import { startRows } from './rows.ts';

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
  const figures = costFigures(costs);
  return {
    figures,
    exact: true,
    charts: { 'costs.svg': drawCosts(costs, figures) },
    print() {
      const guards = guardsTable(costs);
      console.log(`\n${costsTable(costs)}`);
      if (guards !== undefined) console.log(`\n${guards}`);
    },
  };
}
