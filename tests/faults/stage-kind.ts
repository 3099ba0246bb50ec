import type { Bus } from '../../apps/stack/process/home.ts';

/** What sets the stages of a run apart. */
export type StageKind = { bus: Bus; cluster?: boolean; minReplicas?: number; disks?: boolean };
