import { readFileSync, writeFileSync } from 'node:fs';
import { invalidField } from '../../../../shared/contract/errors.ts';
import { object, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { named, route } from '../../http/route.ts';

const now = timestamp('what the clock shows');
// Redis's scripts count time exactly until 2060.
const LAST = Date.UTC(2055, 0, 1);

/**
 * Moves the clock of all programs and servers that live by a file (deploy/try/clock.c). In no document: only a stack to try and to test
 * against has the file.
 */
export function testClockRoutes(file: string) {
  const moveTestClock = route('post', '/api/v1/test-clock', {
    summary: 'Move the clock on',
    description: 'All that was to happen meanwhile happens within a minute.',
    permission: 'workspace:write',
    body: object({ now }),
    response: object({ now }),

    async handle({ body, clock }) {
      const byMs = Date.parse(body.now) - clock.now();
      if (byMs < 0 || Date.parse(body.now) > LAST)
        throw invalidField(
          '/now',
          `must lie between ${timeOf(clock.now())} and ${timeOf(LAST)}: the clock goes forward alone`,
        );
      const seconds = readFileSync(file);
      seconds.writeBigInt64LE(seconds.readBigInt64LE() + BigInt(Math.ceil(byMs / 1000)));
      // In place, since every program has this file in its memory.
      writeFileSync(file, seconds, { flag: 'r+' });
      return { now: timeOf(clock.now()) };
    },
  });
  return named({ moveTestClock });
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
