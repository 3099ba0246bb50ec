import type { Redis } from 'ioredis';
import {
  NEVER,
  PLAIN_CLASS,
  PLAIN_NUMBER,
  packAccountSettings,
  type CreditClass,
  type PackedAlert,
} from '../../shared/stores/account-settings.ts';
import { packRecord } from '../../shared/stores/records.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { setClock } from './test-shard.ts';

// Records of the product with the settings that a test chooses, at an instant that it sets.

export const NOON = Date.UTC(2027, 0, 1, 12);

/** A class of credits, by default the plain one. */
export function classOf(changed: Partial<CreditClass>): CreditClass {
  const nothing = { rollEndsAtMs: 0, rollMaxMicros: 0, firstVersion: 1, begunMicros: 0, pending: [] };
  return { ref: PLAIN_CLASS, number: PLAIN_NUMBER, priority: 50, endsAtMs: NEVER, ...nothing, ...changed };
}

/** One that ends, and is drawn first. */
export function endingClass(endsAtMs: number, begunMicros: number): CreditClass {
  return classOf({ ref: `${'b'.padStart(17, '0')}:10:${endsAtMs}`, number: 2, priority: 10, endsAtMs, begunMicros });
}

type More = { version?: number; allowOverages?: boolean; alerts?: PackedAlert[] | undefined };

/** The settings of an account. */
export function settingsOf(billingId: string, classes: CreditClass[], more: More = {}): string {
  const { version = 1, allowOverages = false, alerts } = more;
  const total = classes.find(({ ref }) => ref === PLAIN_CLASS)?.begunMicros ?? 0;
  const answerPart = `"totalCredits":"${formatCredits(total)}","allowOverages":${allowOverages}`;
  return packAccountSettings({ version, billingId, answerPart }, classes, alerts);
}

/** The settings of a plain record. */
export function plainSettings(billingId: string, limitMicros: number, version = 1): string {
  const answerPart = `"totalCredits":"${formatCredits(limitMicros)}","allowOverages":false`;
  return packRecord('billing', { version, billingId, limitMicros, answerPart });
}

/** A record that was a plain one, with an account, at noon. */
export async function beginRecord(
  redis: Redis,
  classes: CreditClass[],
  { used = 0n, ...more }: More & { used?: bigint } = {},
) {
  await loadScripts(redis);
  const record = recordOfProduct(redis);
  await setClock(redis, NOON);
  await record.startPlain(used);
  await record.declare(settingsOf(record.billingId, classes, more));
  return record;
}

/** A plain record, at noon. */
export async function beginPlain(redis: Redis, limitMicros: number) {
  const record = await beginRecord(redis, []);
  await record.declare(plainSettings(record.billingId, limitMicros));
  return record;
}
