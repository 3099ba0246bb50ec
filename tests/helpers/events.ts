import { hash } from 'node:crypto';
import { beginEvent, dayOf, NO_CHANGES, type UsageEvent } from '../../shared/events/event.ts';
import { newId } from '../../shared/values/ids.ts';

/** The workspace of events whose record is in no store. */
export const WORKSPACE = newId('ws');

/** An event as JSON, for a verification the very bytes that verify.lua writes. */
export function encodeEvent(event: UsageEvent): string {
  return `${beginEvent(event)}}`;
}

/** A line of a hold, or of a moment, with the fields that a test chooses. */
export function testLine(
  kind: 'hold' | 'capture' | 'release' | 'extension' | 'correction' | 'moment',
  chosen: Partial<UsageEvent>,
): UsageEvent {
  const { billingId = newId('bill'), epoch = 1, sequence = 1 } = chosen;
  const place = { billingId, epoch, sequence };
  if (kind === 'moment') {
    const id = lineId(billingId, epoch, sequence);
    return testEvent({ kind, id, keyId: '', usageName: '', classes: [[2, 0, 0, 5]], ...FREE, ...place, ...chosen });
  }
  const { holdId = newId('evt').slice('evt_'.length) } = chosen;
  const id = kind === 'hold' ? `evt_${holdId}` : lineId(holdId, epoch, sequence);
  const detail = kind === 'hold' || kind === 'extension' ? 'a\0b\0' : '';
  const costs = kind === 'capture' || kind === 'correction' ? {} : FREE;
  return testEvent({ kind, id, holdId, holdMicros: 1, detail, ...costs, ...place, ...chosen });
}

const FREE = { costMicros: 0 };

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
    workspaceId: WORKSPACE,
    customerId: '',
    usageName: 'default',
    costMicros: 1,
    usedMicros: 1,
    epoch: 1,
    sequence: 1,
    number: 0,
    route: '',
    actor: '',
    reason: '',
    heldMicros: 0,
    holdId: '',
    holdMicros: 0,
    detail: '',
    classes: NO_CHANGES,
    crossed: '',
    ...chosen,
  };
}

/** The id of a line that a script makes: of a hold's characters, or of a billing record for a moment, and of its own number. */
export function lineId(of: string, epoch: number, sequence: number): string {
  return `evt_0${hash('sha1', `${of} ${epoch} ${sequence}`).slice(0, 25)}`;
}
