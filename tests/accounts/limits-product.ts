import type { Redis } from 'ioredis';
import { plainClass } from '../../apps/api/sync/loaders/classes.ts';
import type { Limit } from '../../shared/contract/limits.ts';
import { packAccountSettings, type PackedAlert } from '../../shared/stores/account-settings.ts';
import { withOwnLimits } from '../../shared/stores/limits.ts';
import { packRecord } from '../../shared/stores/records.ts';
import { recordOfProduct, type Scripts } from './product-scripts.ts';

/** A key with a billing record that never runs out, both with limits over windows. */
export function limitedKey(redis: Redis, scripts: Scripts) {
  const record = recordOfProduct(redis, scripts);
  const { billingId } = record;
  return {
    ...record,
    /** Sets the limits of key and record, and alerts of the record; with these it has an account. */
    async set(ofKey: readonly Limit[], ofRecord: readonly Limit[], alerts?: readonly PackedAlert[]): Promise<void> {
      const answerPart = `"id":"${billingId}","totalCredits":"9000000000","allowOverages":false`;
      const settings = { version: 1, billingId, answerPart, limits: ofRecord };
      await record.setKey(ofKey);
      await record.declare(
        alerts
          ? packAccountSettings(settings, [plainClass(9e15)], alerts)
          : packRecord('billing', { ...settings, limitMicros: withOwnLimits(9e15, ofRecord) }),
      );
    },
  };
}
