import { dayOf, type UsageEvent } from '../../../shared/events/event.ts';
import { newId } from '../../../shared/values/ids.ts';
import { testEvent, testLine } from '../../../tests/helpers/events.ts';

type Hold = { holdId: string; micros: number };
type Begin = { epoch: number; timeMs: number; sequence?: number; usedMicros?: number; keyId?: string };

/** Writes lines of an account as its scripts do: numbered without a gap, each with what is used and reserved after it. */
export function makeLedger(billingId: string, begin: Begin) {
  const { keyId = newId('key') } = begin;
  let { epoch, timeMs, sequence = 0, usedMicros = 0 } = begin;
  let heldMicros = 0;
  const events: UsageEvent[] = [];

  /** Counts a line and gives its place; `made` makes it of that. */
  function write(costMicros: number, heldChange: number, make: (place: Partial<UsageEvent>) => UsageEvent): UsageEvent {
    sequence += 1;
    usedMicros += costMicros;
    heldMicros += heldChange;
    const place = { billingId, epoch, sequence, timeMs, day: dayOf(timeMs), keyId, costMicros, usedMicros, heldMicros };
    const line = make(place);
    events.push(line);
    return line;
  }
  const usageName = 'tokens';

  return {
    events,
    /** Goes on at another time. */
    at(ms: number) {
      timeMs = ms;
      return this;
    },
    /** Goes on in another epoch, where numbers begin again. */
    inEpoch(next: number) {
      epoch = next;
      sequence = 0;
      return this;
    },
    verify: (micros: number) => write(micros, 0, (place) => testEvent({ ...place, usageName: 'calls' })),
    hold(micros: number): Hold {
      const { holdId } = write(0, micros, (place) => testLine('hold', { ...place, holdMicros: micros, usageName }));
      return { holdId, micros };
    },
    capture: ({ holdId, micros }: Hold, usage: number, detail = '') =>
      write(usage, -micros, (place) =>
        testLine('capture', { ...place, holdId, holdMicros: micros, usageName, detail }),
      ),
    release: ({ holdId, micros }: Hold) =>
      write(0, -micros, (place) => testLine('release', { ...place, holdId, holdMicros: micros, usageName })),
    moment: () => write(0, 0, (place) => testLine('moment', { ...place, keyId: '' })),
  };
}
