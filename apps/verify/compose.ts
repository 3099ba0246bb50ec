import { noteTokenUses } from '../../shared/auth/token-uses.ts';
import { watchOutbox } from '../../shared/events/outbox-watch.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { programs } from '../../shared/runtime/programs.ts';
import type { Telemetry } from '../../shared/runtime/telemetry.ts';
import type { Config } from '../../shared/runtime/variables.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { startTurning } from '../../shared/verification/account-turns.ts';
import { makeCancel } from '../../shared/verification/cancel-calls.ts';
import { makeHoldCalls } from '../../shared/verification/hold-calls.ts';
import { makeHoldKeys } from '../../shared/verification/hold-keys.ts';
import { startOutcomes } from '../../shared/verification/outcomes.ts';
import { makeVerifier } from '../../shared/verification/verifier.ts';
import { keepWitnesses } from '../../shared/verification/witnesses.ts';

export type VerifyConfig = Pick<Config, (typeof programs.verify)[number]>;
type Runtime = { metrics: Metrics; telemetry: Telemetry; log: Logger; random: () => number };

/** All that the program is but its connections and its ports. */
export function composeVerify(redis: ShardedRedis, config: VerifyConfig, { metrics, telemetry, log, random }: Runtime) {
  const limits = { maxEntries: config.OUTBOX_MAX_ENTRIES, maxMemoryPercent: config.OUTBOX_MAX_MEMORY_PERCENT };
  const outbox = watchOutbox(redis, limits, metrics, log);
  const witnesses = keepWitnesses(redis, log);
  const holdKeys = makeHoldKeys(redis, config.VERIFY_DEADLINE_MS);
  const uses = noteTokenUses(redis, log);
  const outcomes = startOutcomes({ redis, hasSpareRoom: outbox.hasSpareRoom, metrics, log, random });
  const background = [outbox, witnesses, uses, startTurning(redis, log), outcomes];
  return {
    outbox,
    uses,
    outcomes,
    verifier: makeVerifier({
      redis,
      holdKeys,
      outboxFull: outbox.full,
      requireMemory: outbox.requireMemory,
      witness: witnesses.remember,
      noteOutcome: outcomes.note,
      config,
      metrics,
      telemetry,
    }),
    holds: makeHoldCalls({ redis, holdKeys, outboxFull: outbox.full, config, telemetry }),
    cancel: makeCancel({ redis, outboxFull: outbox.full, requireMemory: outbox.requireMemory, config, telemetry }),
    stop: async () => void (await Promise.all(background.map((one) => one.stop()))),
  };
}
