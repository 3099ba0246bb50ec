import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { testLine } from '../../../tests/helpers/events.ts';
import { connectTestStores } from '../../../tests/helpers/test-stores.ts';
import { dayOf, eventColumns, eventRow, type UsageEvent } from '../../events/event.ts';
import { newId } from '../../values/ids.ts';
import { firstDayOfHolds, readHolds } from './booked-holds.ts';

// What the lines of a hold in the books say of it.

const NOW = Date.UTC(2027, 0, 20, 12);
const HOUR_MS = 3_600_000;
const ENDS = NOW + HOUR_MS;
const workspaceId = newId('ws');
const { books } = await connectTestStores();

const text = (endsAtMs: number, limits = '') => ['5', endsAtMs, 'release', '3:5 ', 1, 2, 'key', 'n', limits].join('\0');
type Told = [kind: Parameters<typeof testLine>[0], hoursAgo: number, chosen?: Partial<UsageEvent>];
const opened: Told = ['hold', 3, { holdMicros: 5, detail: text(ENDS, 'of limits') }];
const captured = (costMicros: number, chosen: Partial<UsageEvent> = {}): Told => {
  return ['capture', 2, { costMicros, holdMicros: 5, ...chosen }];
};
const open = { micros: 5, owned: [[3, 5]], endsAtMs: ENDS };
const KEPT = 46 * 3_600;
const nothingToMend = { heldChangeMicros: 0, costChangeMicros: 0 };
const settled = (how: string, usage: number, { late = '', limits = 'of limits', ends = ENDS } = {}) => ({
  text: [how, usage, ends, late, limits].join('\0'),
  keptSeconds: KEPT,
  ...nothingToMend,
});

const cases: Record<string, { lines: Told[]; wanted: object | undefined }> = {
  'one that is open': {
    lines: [opened],
    wanted: { open, text: text(ENDS, 'of limits'), keptSeconds: 45 * 3_600, ...nothingToMend },
  },
  'one that was extended': {
    lines: [opened, ['extension', 2, { holdMicros: 5, detail: text(ENDS + 1), sequence: 2 }]],
    wanted: { open: { ...open, endsAtMs: ENDS + 1 }, text: text(ENDS + 1), keptSeconds: KEPT, ...nothingToMend },
  },
  'a captured one': { lines: [opened, captured(4)], wanted: settled('captured', 4) },
  'a released one': {
    lines: [opened, ['release', 2, { holdMicros: 5 }]],
    wanted: settled('released', 0, { limits: '' }),
  },
  'one that expired': {
    lines: [opened, ['release', 2, { holdMicros: 5, detail: 'expired' }]],
    wanted: settled('expired', 0),
  },
  'one that expired and was captured late': {
    lines: [
      opened,
      ['release', 3, { holdMicros: 5, detail: 'expired', sequence: 2 }],
      captured(4, { holdMicros: 0, detail: 'late', sequence: 3 }),
    ],
    wanted: settled('captured', 4, { late: '1' }),
  },
  'a charged one that was captured late': {
    lines: [
      opened,
      captured(5, { detail: 'charged', sequence: 2 }),
      ['correction', 2, { costMicros: -2, holdMicros: 0, sequence: 3 }],
    ],
    wanted: settled('captured', 3, { late: '1' }),
  },
  'one that was captured twice, of which the first stands': {
    lines: [opened, captured(4, { sequence: 2 }), captured(6, { epoch: 2, holdMicros: 0 })],
    wanted: { ...settled('captured', 4), costChangeMicros: -6 },
  },
  'one that was put right before': {
    lines: [
      opened,
      captured(4, { sequence: 2 }),
      captured(6, { epoch: 2, holdMicros: 0 }),
      ['correction', 2, { epoch: 2, costMicros: -6, holdMicros: 0, detail: 'lost', sequence: 2 }],
    ],
    wanted: settled('captured', 4),
  },
  'one that lost its first line': {
    lines: [captured(4)],
    wanted: { ...settled('captured', 4, { limits: '', ends: NOW - 2 * HOUR_MS }), heldChangeMicros: 5 },
  },
  'one whose first line may be older than what is read': {
    lines: [['extension', 8 * 24, { holdMicros: 5, detail: text(ENDS) }], captured(4, { sequence: 2 })],
    wanted: settled('captured', 4, { limits: '' }),
  },
  'one that was settled more than 48 h ago': {
    lines: [
      ['hold', 60, { holdMicros: 5, detail: text(NOW - 59 * HOUR_MS) }],
      ['capture', 49, { holdMicros: 5 }],
    ],
    wanted: undefined,
  },
  'one that was released twice, more than 48 h ago': {
    lines: [
      ['hold', 60, { holdMicros: 5, detail: text(ENDS) }],
      ['release', 50, { holdMicros: 5 }],
      ['release', 49, { epoch: 2, holdMicros: 5 }],
    ],
    wanted: { ...settled('released', 0, { limits: '' }), keptSeconds: 1, heldChangeMicros: 5 },
  },
};

for (const [what, { lines, wanted }] of Object.entries(cases))
  test(what, async () => {
    const [billingId, holdId] = [newId('bill'), newId('evt').slice('evt_'.length)];
    const values = lines.map(([kind, hoursAgo, chosen]) => {
      const timeMs = NOW - hoursAgo * HOUR_MS;
      const known = { billingId, workspaceId, holdId };
      return eventRow(testLine(kind, { timeMs, keyId: 'key', usageName: 'n', ...chosen, ...known }));
    });
    const columns = [...eventColumns] as [string, ...string[]];
    await books.client.insert({ table: 'usage_events', values, columns, format: 'JSONCompactEachRow' });
    const first = firstDayOfHolds(NOW);
    const all = new Set(lines.map(([, hoursAgo]) => dayOf(NOW - hoursAgo * HOUR_MS)));
    const days = [...all].filter((day) => day >= first);
    const pages = await Array.fromAsync(readHolds(books, [{ id: billingId, workspaceId, days }], NOW));
    const found = pages.flatMap((page) => [...page]);
    const known = { id: holdId, keyId: 'key', usageName: 'n' };
    assert.equal(found, wanted ? [[billingId, [{ ...known, ...wanted }]]] : []);
  });
