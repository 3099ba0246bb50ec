import type { Caller } from '../../shared/contract/caller.ts';
import { ApiError } from '../../shared/contract/errors.ts';
import type { Json, SimulatedApi, SimulatedVerify } from './programs.ts';
import type { Meter } from './model.ts';
import type { Process } from './simulation.ts';

// What clients have in common.

/** Whose keys they are, and the records that are there. */
export type Home = { caller: Caller; workspaceId: string; meters?: Meter[] };
/** Whom clients can ask; undefined while none runs. */
export type Fleet = { api(): SimulatedApi | undefined; verify(): SimulatedVerify | undefined };
export type Decided = { status: string; reason: string; body: string };
/** Asks for a verification; undefined where nobody can be asked. */
export type Asking = (body: Json, idempotencyKey?: string) => (() => Promise<Decided>) | undefined;
/** An answer of a process, which may die before. */
export function answered<T>(process: Process, asking: Promise<T>): Promise<T> {
  const died = process.died.catch((cause: unknown) => {
    throw new ApiError('undecided', { cause });
  });
  return Promise.race([asking, died]);
}
