import { dayOf, type UsageEvent } from '../../shared/events/event.ts';
import { newId } from '../../shared/values/ids.ts';

/** The event of a verification, with the fields that a test chooses. */
export function testEvent(chosen: Partial<UsageEvent>): UsageEvent {
  const timeMs = chosen.timeMs ?? Date.now();
  return {
    kind: 'verification',
    id: newId('evt'),
    timeMs,
    day: dayOf(timeMs),
    keyId: newId('key'),
    billingId: '',
    usageName: 'default',
    costMicros: 1,
    usedMicros: 1,
    epoch: 1,
    sequence: 1,
    number: 0,
    route: '',
    actor: '',
    reason: '',
    ...chosen,
  };
}
