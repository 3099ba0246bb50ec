import { createHash } from 'node:crypto';
import { hashKeyText } from '../../shared/values/key-text.ts';
import type { Budget, Item, Row } from './rows.ts';

export const meterSources = ['customerId', 'key', 'none'] as const;
export type FinishOptions = {
  /** What names the meter of a key that has none in its file. */
  meterFrom: (typeof meterSources)[number];
  /** Whether credits that have no place are left behind, not a reason to refuse their key. */
  withoutCredits: boolean;
  allowWeak: boolean;
  restore: boolean;
};

const MOST_METADATA_BYTES = 4_096;
const LONGEST_CUSTOMER = 256;

/** Gives a key its meter, and leaves out what of it is too large. */
export function finish(row: Row, options: FinishOptions): Row {
  if (!('item' in row)) return row;
  const { place, id, budget } = row;
  const { item, lost } = fitting(row.item, row.lost);
  const { meterFrom, withoutCredits, allowWeak, restore } = options;
  const unplaced = unplacedOf(budget, meterFrom);
  if (unplaced.length > 0 && !withoutCredits) {
    const help = meterFrom === 'none' ? 'take --meter-from customerId or key' : 'keytally has no such credits';
    return { place, lost, refused: `${unplaced.join(' and ')} would be lost: ${help}, or --without-credits` };
  }
  const flags = { ...(allowWeak && { allowWeak }), ...(restore && { restore }) };
  const done = (more: Item): Row => ({ place, lost: [...lost, ...unplaced], item: { ...item, ...more, ...flags } });
  if (meterFrom === 'none' || item['externalMeterId'] !== undefined) return done({});
  const meter = meterFrom === 'key' ? (id ?? meterOf(item)) : item['customerId'];
  if (meter === undefined)
    return { place, lost, refused: 'it has no customer to name its meter by: take --meter-from key' };
  // What had no credits was not limited by them.
  return done({ externalMeterId: meter, billing: budget?.billing ?? { allowOverages: true } });
}

function unplacedOf(budget: Budget | undefined, meterFrom: FinishOptions['meterFrom']): string[] {
  if (!budget) return [];
  const { fields, billing, without = [] } = budget;
  return meterFrom === 'none' || !billing ? [...fields, ...without] : without;
}

/** A name for the meter of a key without an id, which is the same in each run and tells nothing of its secret. */
function meterOf({ key, hash }: Item): string {
  const secret = typeof key === 'string' ? hashKeyText(key) : digestOf(hash);
  return `key-${createHash('sha256').update(`meter of ${secret}`).digest('hex').slice(0, 32)}`;
}

function digestOf(hash: unknown): string {
  const { encoding, value } = (hash ?? {}) as { encoding?: 'hex' | 'base64'; value?: unknown };
  return Buffer.from(typeof value === 'string' ? value : '', encoding).toString('base64url');
}

/** What is too large for its field is left out, never its key. */
function fitting(given: Item, before: string[]): { item: Item; lost: string[] } {
  const { metadata, customerId } = given;
  const [item, lost] = [{ ...given }, [...before]];
  if (metadata !== undefined && Buffer.byteLength(JSON.stringify(metadata)) > MOST_METADATA_BYTES) {
    lost.push(`metadata of more than ${MOST_METADATA_BYTES} bytes`);
    delete item['metadata'];
  }
  if (typeof customerId === 'string' && customerId.length > LONGEST_CUSTOMER) {
    lost.push(`customerId of more than ${LONGEST_CUSTOMER} characters`);
    delete item['customerId'];
  }
  return { item, lost };
}
