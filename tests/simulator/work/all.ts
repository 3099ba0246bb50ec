import type { Parts } from '../work.ts';
import { beginBilled, makeBilled, type Billed } from './billed.ts';
import { batchKinds, makeBatches } from './batches.ts';
import { beginLimits, limitKinds, makeLimits, type LimitedKeys } from './limits.ts';
import { gateKinds, makeGates, type Gates } from './gates.ts';
import { makeHolds } from './holds.ts';
import { beginWebhook, makeReceiver, type Hook } from './webhooks.ts';

// The kinds of work beside what keys and their accounts need.

/** How often they are; holds stand among those. */
export const otherKinds = { ...batchKinds, ...gateKinds, ...limitKinds };

/** What is there from the beginning. */
export type Begun = { gates: Gates; limited: LimitedKeys; hook: Hook; billed: Billed };

/** Makes what each seed begins with. */
export async function beginOtherWork(parts: Pick<Parts, 'simulation' | 'ask'>, workspaceId: string): Promise<Begun> {
  const limited = await beginLimits(parts.ask, workspaceId);
  const kept: Gates = { places: [], gates: [], named: 0 };
  const gates = makeGates(parts as Parts, kept);
  await gates.makePlace();
  const [place] = kept.places;
  for (let i = 0; i < 2; i++) await gates.makeScope(place!);
  for (let i = 0; i < 3; i++) await gates.makeGate(place!);
  const billed = await beginBilled(parts.ask);
  return { gates: kept, limited, billed, hook: await beginWebhook(parts.ask) };
}

export function makeOtherWork(parts: Parts, beginning: Begun) {
  const begun = structuredClone(beginning);
  const gates = makeGates(parts, begun.gates);
  const limits = makeLimits(parts, begun.limited);
  const billed = makeBilled(parts, begun.billed);
  const batches = makeBatches(parts, [gates.verify, limits.verify]);
  return {
    actions: {
      ...makeHolds(parts).actions,
      ...gates.actions,
      ...limits.actions,
      ...batches.actions,
      ...billed.actions,
    },
    receiver: makeReceiver(parts, begun.hook),
    billed,
    noteFull: limits.noteFull,
    noteLoss: limits.noteLoss,
  };
}
