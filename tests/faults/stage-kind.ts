import type { Bus } from '../../apps/stack/process/home.ts';

/** What sets the stages of a run apart. */
export type StageKind = {
  bus: Bus;
  cluster?: boolean;
  minReplicas?: number;
  disks?: boolean;
  /** The checkout of the version that it begins with, to be upgraded. Such a stage tells webhooks too. */
  from?: string;
  /** In how many ms an api answers at the latest. A suite that judges deadlines leaves the default. */
  requestDeadlineMs?: number;
  /** Half of all requests are traced, so that events with and without a trace mix. A collector gets what programs tell of them. */
  traced?: boolean;
};
