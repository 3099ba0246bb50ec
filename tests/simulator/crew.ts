import {
  startApi,
  startConsumer,
  startRelaying,
  startVerify,
  type Bus,
  type Servers,
  type SimulatedApi,
  type SimulatedConsumer,
  type SimulatedVerify,
} from './programs.ts';
import type { Process, Simulation } from './simulation.ts';
import type { Stage } from './stage.ts';
import type { Work } from './work.ts';
import type { makeOtherWork } from './work/all.ts';
import { startWebhooks, type Called } from './work/webhooks.ts';

/** A seed that runs. */
export type Seed = {
  simulation: Simulation;
  stage: Stage;
  crew: Crew;
  work: Work;
  others: ReturnType<typeof makeOtherWork>;
  /** Lets time pass, does all requests that wait, or one of them. */
  pass(ms: number, wakes?: number): Promise<void>;
  settle(): Promise<void>;
  runOne(): Promise<boolean>;
};

/** The programs of a seed. */
export type Crew = ReturnType<typeof makeCrew>;

export function makeCrew(simulation: Simulation, servers: Servers, bus: Bus) {
  const { random } = simulation;
  let apis: SimulatedApi[] = [];
  let verifies: SimulatedVerify[] = [];
  let consumers: SimulatedConsumer[] = [];
  let webhooks: { process: Process }[] = [];
  let relays: { process: Process }[] = [];
  // Of each program.
  const most = 1 + random.below(2);
  let mayLackNotes = false;
  const alive = <Program extends { process: { isDead(): boolean } }>(all: Program[]) =>
    all.filter(({ process }) => !process.isDead());
  const one = <Program>(all: Program[]) => (all.length === 0 ? undefined : random.pick(all));
  const crew = {
    bus,
    living: () =>
      [apis, verifies, consumers, webhooks, relays]
        .flatMap((all) => alive<{ process: Process }>(all))
        .map(({ process }) => process),
    /** One of each kind, by chance. */
    api: () => one(alive(apis)),
    verify: () => one(alive(verifies)),
    consumer: () => one(alive(consumers)),
    /** Whether a consumer has died between the insert of events and their notes, since `forgetDeaths`. */
    mayLackNotes: () => mayLackNotes,
    forgetDeaths(): void {
      [mayLackNotes, consumers] = [false, alive(consumers)];
    },
    startAll(count = most): void {
      while (alive(apis).length < count) apis = [...alive(apis), startApi(simulation, servers)];
      while (alive(verifies).length < count)
        verifies = [...alive(verifies), startVerify(simulation, servers, `verify ${verifies.length}`)];
      mayLackNotes ||= consumers.some((one) => one.process.isDead() && one.hasUnnoted());
      while (alive(consumers).length < count)
        consumers = [...alive(consumers), startConsumer(simulation, servers, `consumer ${random.below(3)}`, bus)];
      if (bus === 'kafka' && alive(relays).length === 0) relays = [startRelaying(simulation, servers)];
    },
    async startDelivering(called: Called): Promise<void> {
      if (alive(webhooks).length === 0) webhooks = [await startWebhooks(simulation, servers, called)];
    },
    /** Goes on with one of each kind, and gives them. */
    async keepOne() {
      for (const all of [apis, verifies, consumers])
        for (const { process } of alive<{ process: Process }>(all).slice(1)) await simulation.kill(process);
      crew.startAll(1);
      return { api: alive(apis)[0]!, verify: alive(verifies)[0]!, consumer: alive(consumers)[0]! };
    },
  };
  return crew;
}
