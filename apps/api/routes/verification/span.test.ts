import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ApiError } from '../../../../shared/contract/errors.ts';
import { cutsOf } from './span.ts';

const NOW = Date.parse('2026-11-20T10:07:00Z');

const cuts = (asked: Partial<Parameters<typeof cutsOf>[0]>) =>
  cutsOf({ interval: 'day', timezone: 'UTC', ...asked }, NOW).map((ms) => new Date(ms).toISOString().slice(0, 16));

test('periods begin where those of the zone do; a day is included, an instant is not', () => {
  const [from, to] = ['2026-11-17', '2026-11-18'];
  const kathmandu = { from, to, timezone: 'Asia/Kathmandu' };
  assert.equal(cuts({}), ['2026-11-20T00:00', '2026-11-21T00:00']);
  assert.equal(cuts({ from, to }), ['2026-11-17T00:00', '2026-11-18T00:00', '2026-11-19T00:00']);
  // Its day begins at 18:15 UTC.
  assert.equal(cuts(kathmandu), ['2026-11-16T18:15', '2026-11-17T18:15', '2026-11-18T18:15']);
  const hours = cuts({ ...kathmandu, interval: 'hour' });
  assert.equal([hours.length, hours[0], hours[1]], [49, '2026-11-16T18:15', '2026-11-16T19:15']);
  const minutes = { interval: 'minute', from: '2026-11-17T20:15:00+02:00', to: '2026-11-17T18:17:00Z' } as const;
  assert.equal(cuts(minutes), ['2026-11-17T18:15', '2026-11-17T18:16', '2026-11-17T18:17']);
  assert.is(cuts({ from: '2026-08-20', to: '2026-11-19' }).length, 93);
});

test('wrong bounds and zones are told by name', () => {
  for (const [asked, path, told] of [
    [{ timezone: 'Mars' }, 'timezone', 'IANA name'],
    [{ from: 'yesterday' }, 'from', 'must be a day'],
    [{ from: '2026-11-20', to: '2026-11-19' }, 'from', 'must be before to'],
    [{ from: '2026-11-20T00:00:30Z', interval: 'minute' }, 'from', 'a whole minute'],
    [{ from: '2026-11-19', to: '2026-11-20T00:05:00Z' }, 'to', 'a whole quarter hour'],
    [{ from: '2026-11-18', interval: 'minute' }, 'from', 'at most 2 days before the end'],
    [{ from: '2026-10-20', interval: 'hour' }, 'from', 'at most 31 days before the end'],
    [{ from: '2026-08-18', to: '2026-08-22' }, 'from', 'at most 93 days ago'],
  ] as const) {
    try {
      cuts(asked);
      assert.unreachable(JSON.stringify(asked));
    } catch (error) {
      const [detail] = (error as ApiError).details!;
      assert.is(detail!.path, path);
      assert.match(detail!.message, told);
    }
  }
});
