import { setTimeout as sleep } from 'node:timers/promises';
import { watchMemory, type Peaks } from '../history/memory.ts';
import type { Attack } from './attacks/attack.ts';
import type { AttackName } from './attacks/attacks.ts';
import { startAttack } from './attacker.ts';
import { loadGood, type GoodLoad } from './good.ts';
import { makeNeighbours, type Neighbours } from './world.ts';

/** What the good team saw, calm and during an attack, and by how many MB each process grew. */
export type Measured = {
  name: string;
  by: Attack['by'];
  calm: GoodLoad;
  attacked: GoodLoad;
  grownMb: Map<string, number>;
  /** What the attacker was answered: requests by status; 0 is a connection without an answer. */
  answers: Record<string, number>;
};

type Options = { attacks: [string, Attack][]; seconds: number; say(line: string): void };

const CALM_WITHIN_MS = 60_000;

/** Measures what the good team sees: first alone, then beside each attack. */
export async function measureNeighbours({ attacks, seconds, say }: Options): Promise<Measured[]> {
  const world = await makeNeighbours();
  const memory = watchMemory(() => world.pids());
  try {
    // The first round warms the programs up.
    await loadGood(world, seconds);
    const measured: Measured[] = [];
    for (const [name, { by }] of attacks) {
      const calm = await calmLoad(world, seconds);
      memory.reset();
      const before = memory.peaks();
      const attack = await startAttack(world, name as AttackName);
      const attacked = await loadGood(world, seconds);
      const answers = await attack.stop();
      measured.push({ name, by, calm, attacked, grownMb: growth(before, memory.peaks()), answers });
      say(
        `${name}: p99 ${calm.p99Ms.toFixed(1)} ms, attacked ${attacked.p99Ms.toFixed(1)} ms, ${attacked.failed} failed`,
      );
    }
    return measured;
  } finally {
    memory.stop();
    await world.stop();
  }
}

/** The good team's load without an attack; what the last attack left behind is waited out first. */
async function calmLoad(world: Neighbours, seconds: number): Promise<GoodLoad> {
  const until = Date.now() + CALM_WITHIN_MS;
  for (;;) {
    await world.drained();
    const calm = await loadGood(world, Math.max(2, seconds / 2));
    if (calm.failed === 0 || Date.now() > until) return calm;
    await sleep(500);
  }
}

function growth(before: Peaks, peaks: Peaks): Map<string, number> {
  return new Map([...peaks].map(([name, mb]) => [name, mb - (before.get(name) ?? mb)]));
}
