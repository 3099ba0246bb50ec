import type { Fault } from './fault.ts';
import { faultsOfProcesses } from './of-processes.ts';
import { faultsOfServers } from './of-servers.ts';
import { faultsOfConnections } from './of-connections.ts';
import { faultsOfDisasters } from './of-disasters.ts';
import { faultsOfMemory } from './of-memory.ts';
import type { Random } from '../../helpers/random.ts';
import type { StageKind } from '../stage-kind.ts';

/** Every fault that the suite knows. */
export const faults: Fault[] = [
  ...faultsOfProcesses,
  ...faultsOfServers,
  ...faultsOfConnections,
  ...faultsOfMemory,
  ...faultsOfDisasters,
];

export type Act = { kind: StageKind; faults: Fault[] };

/** Chooses a stage and an order for the faults: each is made once, on a stage where it can be. */
export function plan(random: Random, disks: boolean, wanted: Fault[] = faults): Act[] {
  const kinds: StageKind[] = [
    { bus: 'redis', disks },
    { bus: 'kafka', disks, traced: true },
    { bus: 'redis', cluster: true, minReplicas: random.between(0, 1) },
  ];
  const acts = kinds.map((kind): Act => ({ kind, faults: [] }));
  for (const fault of random.shuffled(wanted)) {
    const possible = acts.filter(({ kind }) => fault.on?.(kind) ?? true);
    if (possible.length > 0) random.pick(possible).faults.push(fault);
  }
  return random.shuffled(acts).filter((act) => act.faults.length > 0);
}
