import { join } from 'node:path';
import { readJson, replaceFile } from './files.ts';
import { isAlive, stopProcess, type ProcessId } from './processes.ts';
import type { Program, Started } from './program.ts';

/** A started process, with what is needed to stop it after the supervisor is gone. */
export interface Recorded extends ProcessId {
  name: string;
  port: number;
  stopSignal: NodeJS.Signals;
  stopWithinMs: number;
  since: string;
}

/** The record of a started program. */
export function record(program: Program, { pid, startedAt }: Started): Recorded {
  const { name, port, stopSignal = 'SIGTERM', stopWithinMs = 30_000 } = program;
  return { name, port, pid, startedAt, stopSignal, stopWithinMs, since: new Date().toISOString() };
}

/** Writes down which processes run for a folder, in the order of their start, by their names. */
export function writeRecords(folder: string, records: Recorded[]): void {
  const byName = Object.fromEntries(records.map((one) => [one.name, one]));
  replaceFile(join(folder, 'processes.json'), `${JSON.stringify(byName, null, 2)}\n`);
}

/** The processes that run for a folder, as last written down, without those that have ended. */
export function readRecords(folder: string): Recorded[] {
  return Object.values(readJson<Record<string, Recorded>>(join(folder, 'processes.json')) ?? {}).filter(isAlive);
}

/**
 * Stops what still runs for a folder. The programs named in `order` stop one after the other, since each may need the next
 * to finish; then all others (the servers) stop together.
 */
export async function stopRecorded(
  records: Recorded[],
  order: readonly string[],
  say: (name: string, clean: boolean) => void = () => {},
): Promise<void> {
  const stop = async (one: Recorded) => say(one.name, await stopProcess(one, one.stopSignal, one.stopWithinMs));
  for (const name of order) {
    for (const one of records.filter((candidate) => candidate.name === name)) await stop(one);
  }
  await Promise.all(records.filter(({ name }) => !order.includes(name)).map(stop));
}
