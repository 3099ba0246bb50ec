import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isTimezone, periodAt, periodStart, windowAt } from './calendar.ts';

const at = (text: string) => Temporal.Instant.from(text).epochMilliseconds;
const show = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z');

test('a period begins where the anchor shows: on the last day of a shorter month, after a time that clocks skip, at the first of a doubled one', () => {
  for (const [every, timezone, anchor, ...periods] of [
    ['month', 'UTC', '2027-10-31T08:00Z', '1 2027-11-30T08:00:00Z', '2 2027-12-31T08:00:00Z', '3 2028-01-31T08:00:00Z'],
    ['month', 'UTC', '2027-10-31T08:00Z', '4 2028-02-29T08:00:00Z', '5 2028-03-31T08:00:00Z', '6 2028-04-30T08:00:00Z'],
    ['month', 'UTC', '2026-12-31T00:00Z', '2 2027-02-28T00:00:00Z'],
    ['year', 'UTC', '2024-02-29T12:00Z', '1 2025-02-28T12:00:00Z', '4 2028-02-29T12:00:00Z', '76 2100-02-28T12:00:00Z'],
    // Berlin skips 02:00 to 03:00 on 29 March 2026, and doubles that hour on 25 October.
    ['day', 'Europe/Berlin', '2026-03-28T02:30+01:00', '0 2026-03-28T01:30:00Z', '1 2026-03-29T01:00:00Z'],
    ['day', 'Europe/Berlin', '2026-03-28T02:30+01:00', '2 2026-03-30T00:30:00Z'],
    ['week', 'Europe/Berlin', '2026-10-18T02:30+02:00', '1 2026-10-25T00:30:00Z', '2 2026-11-01T01:30:00Z'],
    // An anchor in the second of two equal hours stays where it is.
    ['day', 'Europe/Berlin', '2026-10-25T02:30+01:00', '0 2026-10-25T01:30:00Z', '1 2026-10-26T01:30:00Z'],
  ] as const)
    for (const expected of periods) {
      const period = Number(expected.split(' ')[0]);
      const found = show(periodStart({ every, timezone, anchorMs: at(anchor) }, period));
      assert.is(`${period} ${found}`, expected, `${every} from ${anchor}`);
    }
});

test('each instant lies in the period that begins last before it', () => {
  const zones = ['UTC', 'Europe/Berlin', 'Asia/Kathmandu', 'America/St_Johns', 'Australia/Lord_Howe', 'Pacific/Apia'];
  const anchors = ['2010-01-31T10:30Z', '2024-02-29T23:59:59.999Z', '2026-03-28T15:10Z', '2011-12-30T09:59Z'];
  for (const timezone of zones)
    for (const every of ['day', 'week', 'month', 'year'] as const)
      for (const anchor of anchors) {
        const recurrence = { every, timezone, anchorMs: at(anchor) };
        for (let period = -15; period < 40; period++) {
          const [startMs, nextMs] = [periodStart(recurrence, period), periodStart(recurrence, period + 1)];
          // A day that a zone skipped has no instant.
          if (startMs === nextMs) continue;
          assert.ok(startMs < nextMs, `${timezone} ${every} ${anchor} ${period}`);
          assert.is(periodAt(recurrence, startMs), period, `${timezone} ${every} ${anchor}`);
          assert.is(periodAt(recurrence, nextMs - 1), period, `${timezone} ${every} ${anchor}`);
        }
      }
});

test('a window is that of its zone, however long clocks make it, to the millisecond', () => {
  for (const [unit, timezone, instant, startsAt, endsAt, count = 1] of [
    // Days of 23, 25 and 24.5 hours.
    ['day', 'Europe/Berlin', '2026-03-29T12:00Z', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z'],
    ['day', 'Europe/Berlin', '2026-10-25T12:00Z', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z'],
    ['day', 'Australia/Lord_Howe', '2026-04-05T00:00Z', '2026-04-04T13:00:00Z', '2026-04-05T13:30:00Z'],
    ['day', 'Europe/Berlin', '2026-10-24T21:59:59.999Z', '2026-10-23T22:00:00Z', '2026-10-24T22:00:00Z'],
    ['day', 'Europe/Berlin', '2026-10-24T22:00:00Z', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z'],
    ['day', 'Asia/Kathmandu', '2026-06-01T18:14:59Z', '2026-05-31T18:15:00Z', '2026-06-01T18:15:00Z'],
    ['month', 'America/St_Johns', '2026-01-01T03:29:59Z', '2025-12-01T03:30:00Z', '2026-01-01T03:30:00Z'],
    // Santiago goes from 23:59 to 01:00: a day whose midnight is skipped begins at its first instant.
    ['day', 'America/Santiago', '2024-09-08T12:00Z', '2024-09-08T04:00:00Z', '2024-09-09T03:00:00Z'],
    ['day', 'America/Santiago', '2024-09-07T12:00Z', '2024-09-07T04:00:00Z', '2024-09-08T04:00:00Z'],
    // St John's went from 00:01 back to 23:01 on 7 November 2010, which does not open a day again.
    ['day', 'America/St_Johns', '2010-11-07T02:29:59Z', '2010-11-06T02:30:00Z', '2010-11-07T02:30:00Z'],
    ...['02:30', '02:31', '03:00', '12:00'].map(
      (time) =>
        ['day', 'America/St_Johns', `2010-11-07T${time}Z`, '2010-11-07T02:30:00Z', '2010-11-08T03:30:00Z'] as const,
    ),
    // Samoa had no 30 December 2011.
    ['day', 'Pacific/Apia', '2011-12-30T09:59:59Z', '2011-12-29T10:00:00Z', '2011-12-30T10:00:00Z'],
    ['day', 'Pacific/Apia', '2011-12-30T10:00Z', '2011-12-30T10:00:00Z', '2011-12-31T10:00:00Z'],
    // Weeks begin on Monday, months on the 1st, years on 1 January, some days are counted from 1970 on.
    ['week', 'Europe/Berlin', '2027-01-01T00:00Z', '2026-12-27T23:00:00Z', '2027-01-03T23:00:00Z'],
    ['month', 'Europe/Berlin', '2026-12-31T23:00Z', '2026-12-31T23:00:00Z', '2027-01-31T23:00:00Z'],
    ['month', 'UTC', '2028-02-29T23:59Z', '2028-02-01T00:00:00Z', '2028-03-01T00:00:00Z'],
    ['year', 'Europe/Berlin', '2026-12-31T22:59Z', '2025-12-31T23:00:00Z', '2026-12-31T23:00:00Z'],
    ['year', 'UTC', '2028-02-29T12:00Z', '2028-01-01T00:00:00Z', '2029-01-01T00:00:00Z'],
    ['day', 'UTC', '1970-01-10T23:59Z', '1970-01-01T00:00:00Z', '1970-01-11T00:00:00Z', 10],
    ['day', 'UTC', '2026-10-25T12:00Z', '2026-10-24T00:00:00Z', '2026-11-03T00:00:00Z', 10],
    ['day', 'Europe/Berlin', '2026-10-24T12:00Z', '2026-10-23T22:00:00Z', '2026-11-02T23:00:00Z', 10],
  ] as const) {
    const { startMs, endMs } = windowAt(unit, timezone, at(instant), count);
    assert.equal([show(startMs), show(endMs)], [startsAt, endsAt], `${unit} ${timezone} ${instant}`);
  }
});

test('windows follow each other without a gap, through every change of clocks', () => {
  for (const timezone of ['Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe', 'America/Havana', 'Africa/Cairo'])
    for (const [unit, count] of [
      ['day', 1],
      ['day', 2],
      ['day', 31],
      ['week', 1],
      ['month', 1],
      ['year', 1],
    ] as const) {
      let { endMs } = windowAt(unit, timezone, at('2010-01-15T00:00Z'), count);
      for (const until = at('2012-01-15T00:00Z'); endMs < until;) {
        const next = windowAt(unit, timezone, endMs, count);
        assert.is(next.startMs, endMs, `${timezone} ${count} ${unit}`);
        endMs = next.endMs;
      }
    }
});

test('a timezone is a name of the IANA database', () => {
  const known = ['UTC', 'Europe/Berlin', 'Asia/Kathmandu', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5'];
  for (const name of known) assert.ok(isTimezone(name), name);
  for (const name of ['', '+05:45', 'Berlin', 'Europe/Atlantis', 'UTC\0', `U${'T'.repeat(70)}`])
    assert.not(isTimezone(name), name);
});
