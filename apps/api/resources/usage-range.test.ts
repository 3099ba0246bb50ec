import { throws } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ApiError } from '../../../shared/contract/errors.ts';
import { DAY_MS, QUARTER_MS } from '../../../shared/values/periods.ts';
import { cutsOf, readPeriods, type GivenRange } from './usage-range.ts';

const NOW = Date.parse('2026-11-20T10:07:00Z');

const cuts = (asked: Partial<Parameters<typeof cutsOf>[0]>) =>
  cutsOf({ interval: 'day', timezone: 'UTC', ...asked }, NOW).map((ms) => new Date(ms).toISOString().slice(0, 16));

function boundsOf(given: GivenRange): string[] {
  const { quarters } = readPeriods(given, NOW);
  return [quarters[0]!, quarters.at(-1)!].map((one) => new Date(one * QUARTER_MS).toISOString().slice(0, 16));
}

test('days are those of the zone, the last one included; an instant is not; without bounds it is the last 31 days', () => {
  for (const [given, expected] of [
    [{}, ['2026-10-21T00:00', '2026-11-21T00:00']],
    [{ to: '2026-03-31' }, ['2026-03-01T00:00', '2026-04-01T00:00']],
    [{ from: '2026-03-29', to: '2026-03-29', timezone: 'Europe/Berlin' }, ['2026-03-28T23:00', '2026-03-29T22:00']],
    [{ from: '2026-11-01T00:00:00+01:00' }, ['2026-10-31T23:00', '2026-11-20T10:15']],
    [{ to: '2026-11-01T00:15:00Z' }, ['2026-10-01T00:15', '2026-11-01T00:15']],
  ] as const)
    assert.equal(boundsOf(given), expected, JSON.stringify(given));
});

test('wrong zones and bounds are told by name, and so is what is too long', () => {
  const days = (from: string, count: number) => ({
    from,
    to: new Date(Date.parse(from) + (count - 1) * DAY_MS).toISOString().slice(0, 10),
  });
  for (const [given, field, told] of [
    [{ timezone: 'Mars/Base' }, 'timezone', 'IANA'],
    [{ from: '2026-02-30' }, 'from', 'must be a day'],
    [{ from: '2026-03-02', to: '2026-03-01' }, 'from', 'must be before to'],
    [{ from: '2026-03-01T00:00:00Z', to: '2026-03-01T00:00:00Z' }, 'from', 'must be before to'],
    [{ from: '2026-03-01T00:00:00Z', to: '2026-03-01T00:07:00Z' }, 'to', 'a whole quarter hour'],
    [{ from: '2026-03-01T00:00:00Z', to: '2026-03-02' }, 'to', 'like the other one'],
    [{ to: '1970-01-05' }, 'from', 'must lie between'],
    [{ to: '1970-01-05T00:00:00Z' }, 'from', 'must lie between'],
    [{ ...days('2026-01-01', 94), interval: 'hour' }, 'from', 'at most 93 days'],
    [{ ...days('2016-06-01', 3_661), interval: 'month' }, 'from', 'at most 3660 days'],
  ] as const)
    refused(() => boundsOf(given), field, told);
  // The longest that are answered.
  boundsOf({ ...days('2026-01-01', 93), interval: 'hour' });
  boundsOf({ ...days('2016-06-01', 3_660), interval: 'month' });
});

test('periods of verifications begin where those of the zone do; a day is included, an instant is not', () => {
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

test('wrong bounds and zones of verifications are told by name', () => {
  for (const [asked, path, told] of [
    [{ timezone: 'Mars' }, 'timezone', 'IANA name'],
    [{ from: 'yesterday' }, 'from', 'must be a day'],
    [{ from: '2026-11-20', to: '2026-11-19' }, 'from', 'must be before to'],
    [{ from: '2026-11-20T00:00:30Z', interval: 'minute' }, 'from', 'a whole minute'],
    [{ from: '2026-11-19', to: '2026-11-20T00:05:00Z' }, 'to', 'a whole quarter hour'],
    [{ from: '2026-11-18', interval: 'minute' }, 'from', 'at most 2 days before the end'],
    [{ from: '2026-10-20', interval: 'hour' }, 'from', 'at most 31 days before the end'],
    [{ from: '2026-08-18', to: '2026-08-22' }, 'from', 'at most 93 days ago'],
  ] as const)
    refused(() => cuts(asked), path, told);
});

function refused(read: () => unknown, field: string, told: string): void {
  throws(read, ({ details: [detail] = [] }: ApiError) => detail?.path === field && detail.message.includes(told), told);
}
