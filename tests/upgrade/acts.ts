import { setTimeout as sleep } from 'node:timers/promises';
import { checkout } from '../../apps/stack/process/home.ts';
import { spans } from '../../shared/runtime/telemetry.ts';
import { faultsOfProcesses } from '../faults/breaking/of-processes.ts';
import type { Act } from '../faults/breaking/faults.ts';
import type { Fault, FaultContext } from '../faults/breaking/fault.ts';
import type { Stage } from '../faults/stage.ts';
import type { StageKind } from '../faults/stage-kind.ts';
import { redisRefusals } from '../helpers/redis-users.ts';
import type { Before, Step } from './before.ts';

/** A version of before and its checkout. */
export type Prepared = Before & { name: string; root: string };

// A key's calls go to any of four processes, of which one is being replaced.
const VERIFY_WITHIN_MS = 2_500;
const MANAGE_WITHIN_MS = 5_000;
const TRACED_WITHIN_MS = 15_000;

/** What is played with a version of before: the way forward, back and forward again, or forward alone. */
export function actsOf(version: Prepared): Act[] {
  const kinds: StageKind[] = [
    { bus: 'redis', from: version.root, traced: true },
    { bus: 'kafka', from: version.root, traced: true },
  ];
  const { forward, back, plain = false } = version;
  const on = way(version, 'forward', forward, checkout);
  const nothing = { ...faultsOfProcesses.find(({ name }) => name === 'nothing')!, name: `${version.name}, afterwards` };
  const faults = back ? [on, way(version, 'back', back, version.root), on] : [{ ...on, plain }, nothing];
  return kinds.map((kind) => ({ kind, faults }));
}

function way({ name, back }: Prepared, where: string, steps: readonly Step[], root: string): Fault {
  return {
    name: `${name}, ${where}`,
    expected: 'books exact, nothing lost, nothing refused that is good',
    verifyWithinMs: VERIFY_WITHIN_MS,
    ...(back && { manageWithinMs: MANAGE_WITHIN_MS }),
    async make(context) {
      for (const step of steps) await take(step, context, root);
      if (root === checkout && !(await isTraced(context.stage)))
        context.complain('no event with a trace came to the books');
      const refused = await redisRefusals(context.stage.redis[0]!);
      if (refused.length > 0) context.complain(`Redis refused a program: ${refused[0]}`);
    },
  };
}

/** Whether an event has had its trace up to the books, once all programs are of this version. */
async function isTraced({ collector }: Stage): Promise<boolean> {
  const until = performance.now() + TRACED_WITHIN_MS;
  while (performance.now() < until) {
    if (collector?.requests.some(({ text }) => text.includes(spans.insert.name))) return true;
    await sleep(100);
  }
  return false;
}

/** Does one step, with one program after the other. */
async function take(step: Step, { stage, random }: FaultContext, root: string): Promise<void> {
  if (step === 'migrate') return stage.moves.migrate();
  if (step === 'set Redis users') return stage.moves.setRedisUsers(checkout);
  const [verb, which] = step.split(' ') as ['stop' | 'start' | 'replace', string];
  const names = stage.programs.filter((name) => which === 'all' || name.startsWith(`${which}-`));
  for (const name of which === 'all' ? random.shuffled(names) : names) {
    if (verb !== 'start') await stage.remove(name);
    if (verb !== 'stop') await stage.start(name, root);
  }
}
