import { throws } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import type { RecordAccount } from '../../sync/accounts.ts';
import { requireFewEnded, stateOf, type GrantRow } from './grants.ts';

const NOW = 1_000;

test('the state of a grant is the first that applies of VOIDED, EXPIRED, PENDING, USED_UP and ACTIVE', () => {
  for (const [state, row, left] of [
    ['VOIDED', { voidedAt: 1, expiresAt: NOW - 1 }, 0],
    ['VOIDED', { voidedAt: 1, beginsAt: NOW + 1 }, 5],
    ['EXPIRED', { expiresAt: NOW }, 0],
    ['ACTIVE', { expiresAt: NOW + 1 }, 5],
    ['ACTIVE', { expiresAt: NOW - 1, rollsUntil: NOW + 1 }, 5],
    ['EXPIRED', { expiresAt: NOW - 1, rollsUntil: NOW }, 5],
    ['PENDING', { beginsAt: NOW + 1 }, 0],
    ['USED_UP', { beginsAt: NOW }, 0],
    ['ACTIVE', { beginsAt: NOW }, 1],
  ] as const) {
    const given = { voidedAt: null, expiresAt: null, rollsUntil: null, beginsAt: 1, ...row };
    assert.is(stateOf(given as unknown as GrantRow, left, NOW), state, JSON.stringify(row));
  }
});

test('at most 200 grants end within a day; those that ended longer ago keep no other from ending', () => {
  const balance = { atMs: 2 * DAY_MS } as RecordAccount['balance'];
  const ended = Array.from({ length: 200 }, (_, i) => ({ number: i, atMs: DAY_MS, usedMicros: 0, heldMicros: 0 }));
  const require = (of: typeof ended) =>
    requireFewEnded({ balance, state: { ended: of } as unknown as RecordAccount['state'], forgotten: new Map() });
  require(ended);
  const today = ended.map((one) => ({ ...one, atMs: DAY_MS + 1 }));
  require(today.slice(1));
  throws(() => require(today), { errorName: 'grant_ended_limit_reached' });
});
