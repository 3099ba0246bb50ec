import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { after, type Balances, type Movement } from '../../../../shared/books/statements/movements.ts';
import { spanOfMonth } from '../../../../shared/books/statements/span.ts';
import { presentLine } from './statements.ts';

test('a line of the file adds up: opening and movements are what it closes with, also with what is late', () => {
  const opening: Balances = { totalMicros: 9e6, usedMicros: 2e6, expiredMicros: 1e6 };
  const movement = (kind: Movement['kind'], balance: Movement['balance'], credits: number): Movement => {
    return { day: '2026-10-01', kind, name: '', balance, micros: credits * 1e6 };
  };
  const movements = [
    movement('granted', 'total', 8),
    movement('expired', 'expired', -1),
    movement('voided', 'expired', 3),
    movement('usage', 'used', 4),
    movement('adjustment', 'used', -2),
    movement('late', 'total', 5),
    movement('late', 'used', 6),
    movement('late', 'expired', -0.5),
  ];
  const closing = after(opening, movements);
  const read = { billingId: 'b', opening, movements, closing, proof: { status: 'EXACT' } as const, closed: true };
  const line = presentLine(read, 'meter', spanOfMonth('2026-10', 'UTC'));
  const sum = (...names: (keyof typeof line)[]) => names.reduce((all, name) => all + Number(line[name]), 0);
  assert.is(sum('openingTotal', 'granted', 'lateGranted'), Number(line.closingTotal));
  assert.is(sum('openingUsed', 'usage', 'adjustments', 'late'), Number(line.closingUsed));
  assert.is(sum('openingExpired', 'expired', 'voided', 'lateExpired'), Number(line.closingExpired));
});
