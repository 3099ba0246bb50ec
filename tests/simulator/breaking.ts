// Breaks each rule in a copy of the product, and sees how many seeds the simulator takes to notice: make simulate-broken [ONLY=…]
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { runInTestFolder } from '../runner/servers.ts';
import { checkPlace, copyTree, putIn } from '../mutants/copy.ts';
import { readFaults } from '../mutants/list.ts';

const SEEDS = 200;
const { values } = parseArgs({ options: { only: { type: 'string', default: '' } } });

await runInTestFolder(async (folder) => {
  const rules = readFaults(join(import.meta.dirname, 'broken-rules.txt'));
  const chosen = rules.filter(({ name, file }) => `${name} ${file}`.includes(values.only));
  for (const one of chosen) checkPlace(one.name, one);
  const root = copyTree(join(folder, 'tree'));
  for (const one of chosen) {
    const takeOut = putIn(root, one);
    const args = ['tests/simulator/main.ts', '--seed', `1-${SEEDS}`, '--first'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root }).catch(
      (error: { stdout: string }) => error,
    );
    takeOut();
    const [, seed, said = ''] = /^seed (\d+): (.*)$/m.exec(stdout) ?? [];
    console.log(`${seed ? `seed ${seed.padEnd(4)}` : 'SURVIVED '}  ${one.name}: ${said}`);
    if (!seed) process.exitCode = 1;
  }
});
