import type { Clock } from '../../shared/runtime/clock.ts';
import { clockWith } from '../helpers/clock.ts';
import { turnsGiven, type Random } from './random.ts';

export type ServerName = 'redis' | 'postgres' | 'clickhouse' | 'kafka' | 'receiver';

/**
 * What becomes of a request to a server: it is done and answered; it never gets there; it is done, and the answer is lost, or comes
 * later, or its process dies before that; or its process stands still before it, while others go on.
 */
export type Fate = 'done' | 'refused' | 'lost' | 'late' | 'fatal' | 'paused';

/** A process of the simulation: it asks servers, and lives by its own view of the one clock. Once dead it never goes on. */
export type Process = {
  name: string;
  /** Tells processes of the same name apart. */
  number: number;
  clock: Clock;
  isDead(): boolean;
  /** Rejects when the process dies. */
  died: Promise<never>;
  /** Asks a server: `execute` runs when it is this request's turn. Requests of one lane run in their order. */
  ask<T>(request: Request<T>): Promise<T>;
  /** Calls back when its connection to Redis was lost: a client has one, and with an answer all later ones are lost. */
  onBroken(broken: () => void): void;
  /** Calls back when the process dies, before anybody else goes on. */
  onDeath(end: () => Promise<void>): void;
};

export type Request<T> = {
  server: ServerName;
  label: string;
  /** A connection. */
  lane: string;
  execute(): Promise<T>;
  /** A request that must not be refused or lost: it is no message. */
  sure?: boolean;
};

type Asked = Request<unknown> & {
  process: Process;
  /** Its lane, among those of all processes. */
  place: string;
  /** What the server did, when the answer is still on its way. */
  outcome?: Outcome;
  settle(outcome: Outcome): void;
};
type Outcome = { value: unknown } | { error: unknown };
type Timer = { at: number; isLoop: boolean; process: Process; work: () => void };

const MOST_WAKES = 2_000;
// How long a process may stand still.
const PAUSES_MS = [1_000, 10_000, 60_000];

export type Simulation = ReturnType<typeof makeSimulation>;

/** One seed's world: time, the order of all requests, and the life of processes are what `random` says. */
export function makeSimulation(random: Random, startMs: number) {
  const isReversed = random.chance(0.5);
  let passedMs = 0;
  /** How far the clock of the machines has jumped. */
  let jumpedMs = 0;
  let forthMs = 0;
  let setBackAt = -Infinity;
  let processes = 0;
  const timers = new Set<Timer>();
  const waiting = new Set<Asked>();
  const deaths = new Map<Process, { die(): void; ends: (() => Promise<void>)[] }>();
  const breaks = new Map<Process, () => void>();
  const trace: string[] = [];
  let fateOf: (request: Request<unknown>) => Fate = () => 'done';
  /** The lane that alone may ask a server: it holds a transaction. */
  const held = new Map<ServerName, string>();
  let paused: { process: Process; untilMs: number } | undefined;

  function startProcess(name: string): Process {
    let dead = false;
    const { promise: died, reject } = Promise.withResolvers<never>();
    died.catch(() => {});
    const process: Process = {
      name,
      number: (processes += 1),
      clock: clockOf(() => process),
      isDead: () => dead,
      died,
      ask: (request) => ask(process, request),
      onBroken: (broken) => void breaks.set(process, broken),
      onDeath: (end) => void deaths.get(process)!.ends.push(end),
    };
    const die = () => {
      dead = true;
      reject(new Error(`${name} died`));
    };
    deaths.set(process, { die, ends: [] });
    return process;
  }

  /** A process dies, wherever it is: what it has sent may still be done, and it hears of nothing. */
  async function kill(process: Process): Promise<void> {
    say(`${process.name} dies`);
    const { die, ends } = deaths.get(process)!;
    deaths.delete(process);
    for (const timer of timers) if (timer.process === process) timers.delete(timer);
    const sent = [...waiting].filter((one) => one.process === process);
    for (const one of sent) waiting.delete(one);
    die();
    await turnsGiven();
    for (const one of sent)
      if (!one.outcome && !one.sure && !held.has(one.server) && random.chance(0.5)) await one.execute().catch(() => {});
    for (const end of ends) await end();
    await turnsGiven();
  }

  function ask<T>(process: Process, request: Request<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (process.isDead()) return promise;
    const settle = (outcome: Outcome) => {
      if (process.isDead()) return;
      if ('error' in outcome) reject(outcome.error);
      else resolve(outcome.value as T);
    };
    waiting.add({ ...request, process, settle, place: `${process.number} ${request.server} ${request.lane}` });
    return promise;
  }

  /** Does what waits in one lane, or the beginning of it, and what follows from the answers until that asks again; false where nothing can be done. */
  async function runOne(): Promise<boolean> {
    const lanes = new Map<string, Asked[]>();
    if (paused && paused.untilMs <= passedMs) paused = undefined;
    for (const one of waiting) {
      const holder = held.get(one.server);
      if (holder === undefined ? one.process === paused?.process : holder !== one.lane) continue;
      const lane = lanes.get(one.place);
      if (lane) lane.push(one);
      else lanes.set(one.place, [one]);
    }
    if (lanes.size === 0) return false;
    const lane = random.pick([...lanes.values()]);
    const first = lane[0]!;
    if (first.outcome) {
      deliver(first, first.outcome);
      await turnsGiven();
      return true;
    }
    // What was sent over one connection is done in its order, and often answered together.
    const end = lane.findIndex((one, i) => i > 0 && one.outcome);
    const some = lane.slice(0, 1 + random.below(end > 0 ? end : lane.length));
    const fates = some.map((one) => (one.sure ? 'done' : fateOf(one)));
    const pausedAt = fates.indexOf('paused');
    if (pausedAt >= 0) {
      say(`${first.process.name} stands still before ${some[pausedAt]!.label}`);
      paused = { process: first.process, untilMs: passedMs + random.below(random.pick(PAUSES_MS)) };
      some.length = fates.length = pausedAt;
    }
    const asked = some.map(async (one, i) => (fates[i] === 'refused' ? undefined : outcomeOf(one)));
    const outcomes = await Promise.all(asked);
    for (const [i, one] of some.entries()) {
      if (fates[i] !== 'done') say(`${one.process.name}: ${one.label} is ${fates[i]}`);
      if (fates[i] === 'late' || fates[i] === 'fatal') one.outcome = outcomes[i]!;
      // What comes after it on its connection is answered after it.
      else if (some.slice(0, i).some(({ outcome }) => outcome))
        one.outcome = outcomes[i] ?? { error: connectionLost() };
      else deliver(one, fates[i] === 'done' ? outcomes[i]! : { error: connectionLost() });
    }
    if (first.server === 'redis' && fates.some((fate) => fate === 'refused' || fate === 'lost')) {
      breaks.get(first.process)?.();
      lose((one) => one.server === 'redis' && one.process === first.process);
    }
    if (fates.includes('fatal')) await kill(first.process);
    await turnsGiven();
    return true;
  }

  function outcomeOf(one: Asked): Promise<Outcome> {
    return one.execute().then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
  }

  function deliver(one: Asked, outcome: Outcome): void {
    waiting.delete(one);
    one.settle(outcome);
  }

  /** Ends the connections to a server: what was not done there never is, and answers under way are lost. */
  async function disconnect(server: ServerName): Promise<void> {
    lose((one) => one.server === server && !one.sure);
    await turnsGiven();
  }

  function lose(isLost: (one: Asked) => boolean): void {
    for (const one of waiting) if (isLost(one)) deliver(one, { error: connectionLost() });
  }

  /** Time passes. Of the loops that are due, each wakes with this probability: a busy machine is late. */
  async function advance(ms: number, wakes = 1): Promise<void> {
    passedMs += ms;
    const slept = new Set<Timer>();
    for (let woken = 0; woken < MOST_WAKES; woken++) {
      const due = [...timers].filter((timer) => timer.at <= passedMs && !slept.has(timer));
      if (due.length === 0) return;
      const next = due.reduce((a, b) => (b.at < a.at ? b : a));
      if (next.isLoop && !random.chance(wakes)) slept.add(next);
      else {
        timers.delete(next);
        next.work();
        await turnsGiven();
      }
    }
    throw new Error('timers wake each other without an end');
  }

  function clockOf(owner: () => Process): Clock {
    return clockWith({ now: () => nowMs(), monotonic: () => passedMs }, (ms, work, isLoop) => {
      const timer = { at: passedMs + Math.max(0, ms), isLoop, process: owner(), work };
      if (!owner().isDead()) timers.add(timer);
      return () => void timers.delete(timer);
    });
  }

  /** Rows of a statement; those that it puts in no order come in one that follows from the seed. */
  function inSomeOrder<Rows extends unknown[]>(
    statement: string,
    rows: Rows,
    textOf: (row: Rows[number]) => string,
  ): Rows {
    if (rows.length < 2 || isOrdered(statement)) return rows;
    const texts = new Map(rows.map((row) => [row, textOf(row)]));
    const way = isReversed ? -1 : 1;
    const inOrder = rows.toSorted((a, b) => (texts.get(a)! < texts.get(b)! ? -way : way));
    return Object.assign(rows, inOrder);
  }

  function nowMs(): number {
    return startMs + passedMs + jumpedMs;
  }

  function say(line: string): void {
    trace.push(`${String(passedMs).padStart(10)}  ${line}`);
  }

  return {
    random,
    trace,
    say,
    nowMs,
    passedMs: () => passedMs,
    startProcess,
    kill,
    runOne,
    disconnect,
    quiet: turnsGiven,
    inSomeOrder,
    advance,
    waiting: () => [...waiting].map(({ process, label }) => `${process.name}: ${label}`),
    /** All clocks of machines jump; what was measured since a moment does not. */
    jump(ms: number): void {
      jumpedMs += ms;
      if (ms > 0) forthMs += ms;
      else setBackAt = passedMs + forthMs;
    },
    /** The time that has passed by any clock, at most, and when by that clocks were set back last. */
    mostPassedMs: () => passedMs + forthMs,
    setBackAtMs: () => setBackAt,
    /** Decides from now on what becomes of requests. */
    setFates: (next: (request: Request<unknown>) => Fate) => void (fateOf = next),
    /** Whoever stands still goes on. */
    resume: () => void (paused = undefined),
    /** From now on only this lane asks the server, until it is released. */
    hold: (server: ServerName, lane: string) => void held.set(server, lane),
    release: (server: ServerName) => void held.delete(server),
  };
}

const ordered = new Map<string, boolean>();

/** Whether a statement puts its rows in an order, and not only those of a part. */
function isOrdered(statement: string): boolean {
  const known = ordered.get(statement);
  if (known !== undefined) return known;
  let rest = statement;
  for (let before = ''; before !== rest;) [before, rest] = [rest, rest.replace(/\([^()]*\)/g, '')];
  ordered.set(statement, rest.includes('order by'));
  return rest.includes('order by');
}

/** As the drivers say that a connection was lost. */
export function connectionLost(): Error {
  return Object.assign(new Error('the connection was lost'), { code: 'CONNECTION_CLOSED' });
}
