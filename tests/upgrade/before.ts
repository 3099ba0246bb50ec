import type { Which } from '../faults/stage-programs.ts';

/**
 * One thing that an operator does. A program is stopped, started or replaced in all its instances, one after the other; all of
 * them are replaced in an order of the seed.
 */
export type Step = 'set Redis users' | 'migrate' | 'replace all' | `${'stop' | 'start' | 'replace'} ${Which}`;

/** A version that is upgraded to this one, in the order that docs/deploy.md#upgrading has for it. */
export type Before = {
  commit: string;
  forward: readonly Step[];
  /** The way back, its schemas staying as they are. Without one it has to be restored from a backup. */
  back?: readonly Step[];
  /** It knows no holds, no grants and no limits over windows, and consumers of it are refused by the books of this one. */
  plain?: true;
};

/** The versions of before. Each needs its commit in this repository. */
export const before: Record<'rolling' | 'stopped', Before> = {
  rolling: {
    commit: '4d09a2c4218e284cbbc449f5b50e5eb4b812487c',
    forward: ['set Redis users', 'migrate', 'replace all'],
    back: ['replace all'],
  },
  stopped: {
    commit: '80c875100310a4a7bb316896c4f4c6cbf3f629b7',
    forward: [
      'stop api',
      'stop consumer',
      'stop relay',
      'set Redis users',
      'replace verify',
      'migrate',
      'start api',
      'start consumer',
      'start relay',
      'start webhooks',
    ],
    plain: true,
  },
};
