import type { programs } from '../../shared/runtime/programs.ts';
import type { Whole } from '../../shared/runtime/run.ts';
import type { ConfigOf } from '../../shared/runtime/variables.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { startDoingMoments } from '../../shared/verification/account-moments.ts';
import { composeVerification } from '../../shared/verification/compose.ts';

export type VerifyConfig = ConfigOf<typeof programs.verify>;

/** All that the program is but its connections and its ports. */
export function composeVerify(redis: ShardedRedis, config: VerifyConfig, runtime: Omit<Whole, 'clock'>) {
  const { background, ...parts } = composeVerification(redis, config, runtime);
  const all = [...background, startDoingMoments(redis, runtime.log)];
  return { ...parts, stop: async () => void (await Promise.all(all.map((one) => one.stop()))) };
}
