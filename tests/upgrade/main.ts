// Upgrades under load: node tests/upgrade/main.ts [--seed 7] [--minutes 10] [--only rolling | --only stopped]
import '../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { playSeeds, runSuite } from '../faults/run.ts';
import { actsOf, type Prepared } from './acts.ts';
import { before } from './before.ts';
import { checkOut, install } from './check-out.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { seed: text, minutes: text, only: text } });

await runSuite(async () => {
  const { seed, minutes, only = '' } = values;
  const versions: Prepared[] = [];
  for (const [how, version] of Object.entries(before).filter(([how]) => how.includes(only))) {
    const root = await checkOut(version.commit);
    await install(root);
    versions.push({ ...version, name: `${how} from ${version.commit.slice(0, 7)}`, root });
  }
  return playSeeds({ name: 'upgrades', seed, minutes, plan: (random) => random.shuffled(versions.flatMap(actsOf)) });
});
