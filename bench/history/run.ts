import { setTimeout as sleep } from 'node:timers/promises';
import type { Peaks } from './memory.ts';
import { settleBehind } from './behind.ts';
import { insertHistory, sumUpDays } from './fill.ts';
import {
  emptiedRedis,
  foundAgain,
  operations,
  requireExactRecord,
  search,
  wrongSums,
  type Operation,
} from './operations.ts';
import type { Seen } from './others.ts';
import { planHistory } from './plan.ts';
import { makeHistoryWorld, type HistoryWorld } from './world.ts';

/** How an operation went. */
export type Measured = {
  name: string;
  seconds: number;
  withinSeconds: number;
  peaks: Peaks;
  others: Seen;
  /** Why it is wrong, whatever the time: something was not exact, or it never ended. */
  wrong?: string;
};

type Options = {
  events: number;
  records: number;
  /** Over how many days the events are spread. */
  days: number;
  /** After so many times its limit an operation has failed. */
  patience: number;
  say(line: string): void;
  told(what: string, done: number, all: number): void;
};

const EPOCHS = 4;
const SETTLED_WITHIN_SECONDS = 30;
const SETUP_WITHIN_MS = 600_000;
const MERGED_WITHIN_MS = 300_000;
const LOOK_EVERY_MS = 500;
// Between one merge and the next nothing runs for a moment.
const QUIET_LOOKS = 6;

/** Makes a record with a long history, and measures everything that is done to it. */
export async function measureHistory({ events, records, days, patience, say, told }: Options): Promise<Measured[]> {
  const world = await makeHistoryWorld(planHistory(events, days, EPOCHS, Date.now()));
  const measured: Measured[] = [];
  const measure = async (operation: Operation) => {
    measured.push(await measureOne(world, operation, patience));
    say(lineOf(measured.at(-1)!));
  };
  try {
    await timed(say, `${events.toLocaleString('en')} events inserted`, () =>
      insertHistory(world, (done) => told('events', done, events)),
    );
    say(`they take ${Math.round((await bytesOfEvents(world)) / events)} bytes each on the disk`);
    await timed(say, 'days summed up', () => sumUpDays(world));
    await timed(say, 'parts merged', () => untilMerged(world));
    for (const operation of [...operations, search, foundAgain, emptiedRedis]) await measure(operation);
    await measure(settleBehind(records, SETTLED_WITHIN_SECONDS));
    await measure({ name: 'all exact', withinSeconds: Infinity, work: allExact });
    await measure(wrongSums);
    return measured;
  } finally {
    await world.stop();
  }
}

async function measureOne(world: HistoryWorld, operation: Operation, patience: number): Promise<Measured> {
  const { name, withinSeconds, prepare, work } = operation;
  const limitMs = Math.min(patience * withinSeconds * 1000, SETUP_WITHIN_MS);
  const unprepared = await prepare?.(world, AbortSignal.timeout(SETUP_WITHIN_MS)).catch((error: Error) => error);
  world.memory.reset();
  world.others.reset();
  const began = performance.now();
  const failed = unprepared ?? (await work(world, AbortSignal.timeout(limitMs)).catch((error: Error) => error));
  const seconds = (performance.now() - began) / 1000;
  const others = world.others.seen();
  return {
    name,
    seconds,
    withinSeconds,
    peaks: world.memory.peaks(),
    others,
    ...(failed && { wrong: failed.name === 'TimeoutError' ? `not within ${limitMs / 1000} s` : failed.message }),
  };
}

async function allExact(world: HistoryWorld, signal: AbortSignal): Promise<void> {
  const { code, output } = await world.command('reconcile', signal);
  if (code !== 0) throw new Error(`reconcile ended with ${code}: ${output.trim().slice(-2_000)}`);
  await requireExactRecord(world, signal);
}

async function bytesOfEvents({ setup }: HistoryWorld): Promise<number> {
  const answer = await setup.query({
    query: `select sum(bytes_on_disk) from system.parts
            where database = currentDatabase() and table = 'usage_events' and active`,
    format: 'JSONCompactEachRow',
  });
  const [row] = await answer.json<[bytes: string]>();
  return Number(row![0]);
}

/**
 * Waits until ClickHouse merges nothing: what came within minutes here comes within months elsewhere, and is merged by then. What
 * it goes on merging for long belongs to what is measured.
 */
async function untilMerged({ setup }: HistoryWorld): Promise<void> {
  const until = performance.now() + MERGED_WITHIN_MS;
  for (let quiet = 0; quiet < QUIET_LOOKS && performance.now() < until; await sleep(LOOK_EVERY_MS)) {
    const answer = await setup.query({
      query: 'select count() from system.merges where database = currentDatabase()',
      format: 'JSONCompactEachRow',
    });
    const [row] = await answer.json<[merges: string]>();
    quiet = Number(row![0]) === 0 ? quiet + 1 : 0;
  }
}

async function timed<T>(say: (line: string) => void, what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  say(`${what} in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return result;
}

function lineOf({ name, seconds, wrong }: Measured): string {
  return `${name}: ${seconds.toFixed(1)} s${wrong === undefined ? '' : `, WRONG: ${wrong}`}`;
}
