import { noteTokenUses } from '../auth/token-uses.ts';
import { watchOutbox } from '../events/outbox-watch.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { Telemetry } from '../runtime/telemetry.ts';
import type { Config } from '../runtime/variables.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { makeCancel } from './cancel-calls.ts';
import { makeHoldCalls } from './hold-calls.ts';
import { makeHoldKeys } from './hold-keys.ts';
import { startOutcomes } from './outcomes.ts';
import { makeVerifier } from './verifier.ts';

type VerificationConfig = Pick<
  Config,
  'OUTBOX_MAX_ENTRIES' | 'OUTBOX_MAX_MEMORY_PERCENT' | 'VERIFY_DEADLINE_MS' | 'VERIFY_MAX_WAITING'
>;
type Runtime = { metrics: Metrics; telemetry: Telemetry; log: Logger; random: () => number };

/** What decides verifications and settles holds, in the verify app and in the api alike; `background` has begun and is to be stopped. */
export function composeVerification(
  redis: ShardedRedis,
  config: VerificationConfig,
  { metrics, telemetry, log, random }: Runtime,
) {
  const limits = { maxEntries: config.OUTBOX_MAX_ENTRIES, maxMemoryPercent: config.OUTBOX_MAX_MEMORY_PERCENT };
  const outbox = watchOutbox(redis, limits, metrics, log);
  const uses = noteTokenUses(redis, log);
  const outcomes = startOutcomes({ redis, hasSpareRoom: outbox.hasSpareRoom, metrics, log, random });
  const holdKeys = makeHoldKeys(redis, config.VERIFY_DEADLINE_MS);
  const { full: outboxFull, requireMemory } = outbox;
  const parts = { redis, outboxFull, requireMemory, config, telemetry };
  return {
    outbox,
    uses,
    outcomes,
    verifier: makeVerifier({ ...parts, holdKeys, noteOutcome: outcomes.note, metrics }),
    holds: makeHoldCalls({ ...parts, holdKeys }),
    cancel: makeCancel(parts),
    background: [outbox, uses, outcomes],
  };
}
