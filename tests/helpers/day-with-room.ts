import { setTimeout as sleep } from 'node:timers/promises';
import { windowAt } from '../../shared/values/calendar.ts';

const ROOM_MS = 180_000;

/** For steps that belong to one day of a zone: waits for the next one if this one may end meanwhile. */
export async function dayWithRoom(timezone = 'UTC', roomMs = ROOM_MS): Promise<void> {
  const leftMs = windowAt('day', timezone, Date.now()).endMs - Date.now();
  if (leftMs < roomMs) await sleep(leftMs);
}
