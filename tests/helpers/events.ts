import { dayOf, type UsageEvent } from '../../shared/events/event.ts';
import { newId } from '../../shared/values/ids.ts';

/** The event of a verification, but for what a test wants otherwise. */
export function testEvent(more: Partial<UsageEvent>): UsageEvent {
  const timeMs = more.timeMs ?? Date.now();
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
    ...more,
  };
}
