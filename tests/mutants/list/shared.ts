import type { Mutant } from '../mutant.ts';

export const shared: Mutant[] = [
  {
    name: 'at most 9,000,000,000 credits',
    file: 'shared/values/credits.ts',
    from: 'micros <= MAX_MICROS ?',
    to: 'micros < MAX_MICROS ?',
  },
  {
    name: 'a key text with a wrong checksum is looked up',
    file: 'shared/values/key-text.ts',
    from: 'shard < SHARDS && crc32(text.slice(0, checked)) === fromBase62(text, checked) ? shard : undefined',
    to: 'shard < SHARDS ? shard : undefined',
  },
  {
    name: 'an IPv4 address written as IPv6 is another address',
    file: 'shared/values/ip.ts',
    from: '.slice(0, length - 96)',
    to: '.slice(0, length - 95)',
  },
  {
    name: 'a window ends a millisecond late',
    file: 'shared/values/calendar.ts',
    from: 'periodStart(recurrence, period + 1) <= atMs',
    to: 'periodStart(recurrence, period + 1) < atMs',
  },
  {
    name: 'a failure is kept as a result is',
    file: 'shared/runtime/keep-for.ts',
    from: '() => (kept = undefined)',
    to: '() => (until = clock.monotonic() + ms)',
    seenBy: 'shared/http/probes.test.ts',
  },
  {
    name: 'a retry pauses longer and longer',
    file: 'shared/runtime/retry.ts',
    from: 'Math.min(attempt, 10), LONGEST_PAUSE_MS',
    to: 'Math.min(attempt, 10), Infinity',
  },
  {
    name: 'what is remembered of texts has no bound of characters',
    file: 'shared/runtime/memoize.ts',
    from: 'characters + own.length > MOST_CHARACTERS',
    to: 'characters < 0',
  },
];
