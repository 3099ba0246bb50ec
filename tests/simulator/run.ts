import { asksOf, proveBooks, proveRest, readBooked } from './proofs.ts';
import {
  type Bus,
  startApi,
  startConsumer,
  startRelaying,
  startVerify,
  type SimulatedApi,
  type SimulatedConsumer,
  type SimulatedVerify,
} from './programs.ts';
import type { Fate, Process, Request } from './simulation.ts';
import type { Becomes } from './redis-server.ts';
import type { Stage } from './stage.ts';
import { makeWork, workKinds } from './work.ts';
import { makeOtherWork, otherKinds } from './work/all.ts';
import { startWebhooks } from './work/webhooks.ts';

export type Fault = (typeof faults)[number];
/** Which steps of a seed are done, and without which faults. */
export type Plan = { seed: number; steps: readonly number[]; without?: readonly Fault[] };
export type Result = { broken: string[]; trace: string[] };

// What a step may be, and how often.
const kinds: Record<string, number> = {
  ...otherKinds,
  ...workKinds,
  deliver: 2,
  job: 1,
  time: 25,
  hours: 1,
  deaths: 2,
  pauses: 2,
  losses: 1.5,
  messages: 2.5,
  commits: 1,
  jumps: 0.5,
  fullness: 1,
};
// Parts of what requests are, before or after which something happens.
const AIMS = ['', 'apply', 'apply', 'adjust', 'capture', 'settle', 'callBuffer', 'insert into usage_events'];
// Which server answers badly, and how often.
const TROUBLED = { redis: 2, postgres: 1, clickhouse: 1, receiver: 1 };
// What becomes of Redis's data, and how often.
const LOSSES = { kept: 2, 'its tail lost': 2, 'those of a replica that lagged': 1, emptied: 1 };
// What happens to a request, and to Redis just after it.
const AIMED_LOSSES: [at: string, fate: Fate, becomes: Becomes][] = [
  ['callBuffer', 'done', 'its tail lost'],
  ['insert into usage_events', 'done', 'its tail lost'],
  ['insert into usage_events', 'paused', 'emptied'],
  ['insert into usage_events', 'paused', 'emptied'],
  ['acknowledge', 'done', 'those of a replica that lagged'],
];
/** The faults, each of which can be switched off. */
export const faults = ['deaths', 'pauses', 'losses', 'messages', 'commits', 'jumps', 'fullness'] as const;

/**
 * Runs a seed: does the steps of the plan, brings everything to rest, and proves the books. What a step does follows from the seed and
 * its number alone, so that a plan can leave out others.
 */
export async function runSeed(stage: Stage, { seed, steps, without = [] }: Plan): Promise<Result> {
  const { servers, beginning } = stage;
  const simulation = await stage.begin(seed);
  const { random, say } = simulation;
  let apis: SimulatedApi[] = [];
  let verifies: SimulatedVerify[] = [];
  let consumers: SimulatedConsumer[] = [];
  let webhooks: { process: Process }[] = [];
  let relays: { process: Process }[] = [];
  const bus: Bus = seed % 4 === 3 ? 'kafka' : 'redis';
  // Of each program.
  const most = 1 + random.below(2);
  let troubled: { server: string; left: number; fates: Fate[] } | undefined;
  let commitsTroubled = 0;
  let isJobUnderWay = false;
  let aConsumerDied = false;
  let aimed: { at: string; fate: Fate; after?: () => Promise<void> }[] = [];
  let shortFor = 0;
  let next: (() => Promise<void>)[] = [];
  simulation.setFates(fateOf);
  servers.postgres.setCommitFates(() => {
    if (commitsTroubled === 0) return 'done';
    commitsTroubled -= 1;
    return random.pick(['fails before', 'deadlock', 'lost after', 'done']);
  });
  const alive = <Program extends { process: { isDead(): boolean } }>(all: Program[]) =>
    all.filter(({ process }) => !process.isDead());
  const living = () => [apis, verifies, consumers, webhooks, relays].flatMap((all) => alive<{ process: Process }>(all));
  const one = <Program>(all: Program[]) => (all.length === 0 ? undefined : random.pick(all));
  const fleet = { api: () => one(alive(apis)), verify: () => one(alive(verifies)) };
  const work = makeWork(simulation, beginning, fleet);
  const others = makeOtherWork({ simulation, home: beginning, fleet, ...work }, beginning.begun);
  const actions = { ...work.actions, ...others.actions };

  startAll();
  await pass(300);
  for (const step of steps) {
    if (work.broken.length > 0) break;
    random.reseed(seed * 100_003 + step);
    const name = random.weighted(kinds);
    if (shortFor > 0 && (shortFor -= 1) === 0) servers.redis.setShort(false);
    if (!without.includes(name as Fault)) await doStep(name);
    await simulation.quiet();
    for (let some = random.below(25); some > 0 && (await runOne()); some--);
  }
  random.reseed(seed);
  if (work.broken.length === 0) await rest();
  const result = { broken: [...work.broken], trace: [...simulation.trace] };
  for (const { process } of living()) await simulation.kill(process);
  return result;

  function fateOf({ server, label }: Request<unknown>): Fate {
    const aim = aimed.find(({ at }) => label.includes(at));
    if (aim) {
      aimed = aimed.filter((one) => one !== aim);
      if (aim.after) next.push(aim.after);
      return aim.fate;
    }
    if (troubled?.server !== server) return 'done';
    troubled.left -= 1;
    const fate = random.pick(troubled.fates);
    if (troubled.left === 0) troubled = undefined;
    return fate;
  }

  function startAll(count = most): void {
    while (alive(apis).length < count) apis = [...alive(apis), startApi(simulation, servers)];
    while (alive(verifies).length < count)
      verifies = [...alive(verifies), startVerify(simulation, servers, `verify ${verifies.length}`)];
    aConsumerDied ||= alive(consumers).length < consumers.length;
    while (alive(consumers).length < count)
      consumers = [...alive(consumers), startConsumer(simulation, servers, `consumer ${random.below(3)}`, bus)];
    if (bus === 'kafka' && alive(relays).length === 0) relays = [startRelaying(simulation, servers)];
  }

  async function startDelivering(): Promise<void> {
    if (alive(webhooks).length === 0) webhooks = [await startWebhooks(simulation, servers, others.receiver)];
  }

  async function pass(ms: number, wakes = 1): Promise<void> {
    await simulation.advance(ms, wakes);
    await servers.postgres.tick();
    await servers.redis.tick();
  }

  async function settle(): Promise<void> {
    for (let done = 0; await runOne(); done++) {
      if (done > 5_000)
        throw new Error(`requests follow each other without an end: ${simulation.waiting().join('; ')}`);
    }
  }

  /** Does a request, and what was to happen after it. */
  async function runOne(): Promise<boolean> {
    const ran = await simulation.runOne();
    const then = next;
    next = [];
    for (const one of then) await one();
    return ran;
  }

  async function doStep(name: string): Promise<void> {
    switch (name) {
      case 'time':
        return pass(random.pick([10, 50, 200, 1_000, 3_000]) + random.below(10), 0.25);
      case 'hours':
        if (random.chance(0.7)) return pass(3_600_000, 0.5);
        // An account keeps what an ended grant gave for a day: no api is stopped for so long.
        startAll();
        for (let round = 0, calm = 0; calm < 2 && round < 30; round++) {
          await settle();
          // Who waits in a transaction for another process keeps Postgres from all others.
          calm = simulation.waiting().length === 0 ? calm + 1 : 0;
          await pass(1_000);
        }
        await settle();
        return pass(26 * 3_600_000, 0.5);
      case 'deaths': {
        const all = living();
        if (all.length > 3 && random.chance(0.5))
          troubled = { server: random.pick(['redis', 'postgres', 'clickhouse']), left: 1, fates: ['fatal'] };
        else if (all.length > 3 || random.chance(0.3)) await simulation.kill(random.pick(all).process);
        if (random.chance(0.7)) startAll();
        return;
      }
      case 'pauses':
        if (random.chance(0.5)) {
          // Another change, by another api, overtakes the one that stands still.
          startAll(2);
          const { promise, resolve } = Promise.withResolvers<void>();
          aimed.push({ at: 'apply', fate: 'paused', after: async () => resolve() });
          void actions.changeTwice(promise);
        } else aimed.push({ at: random.pick(AIMS), fate: 'paused' });
        return;
      case 'losses': {
        if (!servers.redis.isUp()) return servers.redis.start();
        if (random.chance(0.5)) {
          // Just after events were read from it, or are in the books; or while a consumer has them in its hands.
          const [at, fate, becomes] = random.pick(AIMED_LOSSES);
          aimed.push({ at, fate, after: () => loseAndStart(becomes) });
          // What is in those hands comes late, and others are debited while its records are rebuilt.
          if (fate === 'paused') aimed.push({ at: 'update unsettled_records', fate: 'done', after: verifyUnbooked });
          return;
        }
        await lose(random.weighted(LOSSES) as Becomes);
        if (random.chance(0.8)) await servers.redis.start();
        return;
      }
      case 'messages': {
        if (random.chance(0.4)) {
          aimed.push({ at: random.pick(AIMS), fate: random.pick(['refused', 'lost', 'lost', 'late']) });
          return;
        }
        troubled = {
          server: random.weighted({ ...TROUBLED, kafka: bus === 'kafka' ? 1 : 0 }),
          left: 1 + random.below(5),
          fates: random.pick([['refused'], ['lost'], ['late'], ['done', 'refused', 'lost', 'late']] as Fate[][]),
        };
        say(`the next requests to ${troubled.server} are ${troubled.fates.join()}`);
        return;
      }
      case 'jumps': {
        const ms = random.pick([-60_000, -4_000, -500, 500, 4_000, 3_600_000]);
        say(`the clocks jump by ${ms} ms`);
        if (ms < 0) work.noteSetBack();
        simulation.jump(ms);
        return pass(0, 0);
      }
      case 'fullness':
        others.noteFull();
        if (random.chance(0.5)) {
          say('redis is short of memory');
          servers.redis.setShort(true);
          shortFor = 20;
          return pass(500);
        }
        say('redis is full');
        await servers.redis.setFull(true);
        await pass(random.pick([100, 2_000]), 0.3);
        for (let some = random.below(30); some > 0 && (await runOne()); some--);
        return servers.redis.setFull(false);
      case 'commits':
        commitsTroubled = 1 + random.below(2);
        return;
      case 'job': {
        const consumer = one(alive(consumers));
        const wanted = random.pick(['rollup', 'close-months']);
        const job = consumer?.jobs.find(({ name }) => name === wanted);
        if (!consumer || !job || isJobUnderWay) return;
        isJobUnderWay = true;
        say(`${consumer.process.name} begins ${job.name}`);
        // What fails is done at its next time.
        void Promise.race([job.work(new AbortController().signal), consumer.process.died])
          .catch(() => {})
          .finally(() => (isJobUnderWay = false));
        return;
      }
      case 'deliver':
        return startDelivering();
      default: {
        const action = actions[name as keyof typeof actions];
        void action().catch((error: Error) => work.breaks(String(error.stack)));
      }
    }
  }

  async function verifySome(): Promise<void> {
    for (let some = 0; some < 4; some++)
      void actions.verify().catch((error: Error) => work.breaks(String(error.stack)));
  }

  /** What is debited now comes to the books later than a record that is noted now can be rebuilt. */
  async function verifyUnbooked(): Promise<void> {
    aimed.push({ at: 'insert into usage_events', fate: 'paused' });
    await verifySome();
  }

  async function loseAndStart(becomes: Becomes): Promise<void> {
    if (!servers.redis.isUp()) return;
    await lose(becomes);
    await servers.redis.start();
  }

  async function lose(becomes: Becomes): Promise<void> {
    if (becomes === 'kept') return servers.redis.stop(becomes);
    const booked = await readBooked(servers.books.real, beginning.workspaceId);
    const outlivesUntilMs = servers.redis.outlivesUntilMs(becomes);
    await servers.redis.stop(becomes);
    for (const { noteLoss } of [work, others])
      noteLoss(outlivesUntilMs, (debit) => booked.of(debit).count > 0, becomes !== 'its tail lost');
  }

  /** Faults end, everything runs, and what was begun comes to its end; then the proofs. */
  async function rest(): Promise<void> {
    say('faults end');
    [troubled, aimed, next] = [undefined, [], []];
    simulation.resume();
    servers.redis.setShort(false);
    commitsTroubled = 0;
    if (!servers.redis.isUp()) await servers.redis.start();
    // One of each is enough from here on.
    for (const all of [apis, verifies, consumers])
      for (const { process } of alive<{ process: Process }>(all).slice(1)) await simulation.kill(process);
    startAll(1);
    others.receiver.recover();
    await startDelivering();
    await comeToRest();
    if (work.broken.length > 0) return;
    for (const name of ['rollup', 'close-months']) await doJob(name);
    let unproved = await reconciled();
    // A consumer may have died between the insert of late events and their notes, and nobody has the events any more: reconciling notes them.
    const mayLackNotes = work.model.losses > 0 && aConsumerDied;
    if (
      mayLackNotes &&
      unproved.length > 0 &&
      unproved.every((one) => / ON_ITS_WAY |(MISSING|TOO_MUCH) 0 0$/.test(one))
    ) {
      await comeToRest();
      unproved = await reconciled();
    }
    if (unproved.length > 0) work.breaks(`reconcile finds ${unproved.join(', ')}`);
    const leftovers = await servers.redis.leftovers();
    if (leftovers.length > 0) work.breaks(`redis still has ${leftovers.join(', ')}`);
    const asks = asksOf(beginning, alive(apis)[0]!, alive(verifies)[0]!);
    const booked = await until(
      'proving the books',
      proveBooks(servers.books.real, work, async (bid) => (await asks.read('getBilling', { bid })).billing),
    );
    await until('proving what is at rest', proveRest(work, booked, asks));
    await settle();
    others.receiver.prove();
  }

  async function comeToRest(): Promise<void> {
    let left: string | undefined;
    for (let round = 0, idle = 0; idle < 4; round++) {
      if (round > 60) return work.breaks(`it comes to no rest: ${left}`);
      await settle();
      // What was asked is answered once nothing was left twice. The longest hold ends then, and the longest pause of a webhook.
      await pass(idle === 2 ? 130_000 : round < 2 ? 1_000 : Math.max(5_000, await longestPause()));
      await settle();
      const now = await unrest();
      if (now !== left) say(`left: ${now || 'nothing'}`);
      left = now;
      idle = idle === 2 || left === '' ? idle + 1 : idle < 2 ? 0 : 3;
    }
  }

  async function doJob(name: string): Promise<void> {
    const job = alive(consumers)[0]!.jobs.find((each) => each.name === name)!;
    await until(`the job ${name}`, job.work(new AbortController().signal));
  }

  /** What differs, once all was compared. */
  async function reconciled(): Promise<string[]> {
    await doJob('reconcile');
    const rows = await asAdmin<{ unproved: string }[]>(
      `select billing_id || ' ' || status || ' ' || difference_micros || ' ' || held_difference_micros as unproved from unproved_records`,
    );
    return rows.map(({ unproved }) => unproved);
  }

  /** Lets time pass until something is done. */
  async function until<T>(what: string, doing: Promise<T>): Promise<T> {
    let isDone = false;
    const done = doing.finally(() => (isDone = true));
    done.catch(() => {});
    for (let round = 0; ; round++) {
      await settle();
      if (isDone) return done;
      if (round > 100) throw new Error(`${what} does not end`);
      // Most of it waits for no loop.
      await (round < 3 ? pass(200, 0) : pass(1_000));
    }
  }

  /** What is still to be done, by the stores themselves. */
  async function unrest(): Promise<string> {
    const [{ waiting }] = await asAdmin<[{ waiting: string }]>(`
      select concat_ws(', ',
        (select count(*) || ' changes' from changes where applied_at is null having count(*) > 0),
        (select count(*) || ' unsettled' from unsettled_records having count(*) > 0),
        (select count(*) || ' deliveries' from webhook_deliveries where state = 'WAITING' having count(*) > 0)) as waiting`);
    return [waiting, await servers.redis.unrest(), servers.kafka.unrest()].filter(Boolean).join(', ');
  }

  /** Until the last try of a webhook that waits. */
  async function longestPause(): Promise<number> {
    const [{ ms }] = await asAdmin<[{ ms: number }]>(
      `select coalesce(extract(epoch from max(next_at) - sim.now()) * 1000, 0)::bigint as ms from webhook_deliveries where state = 'WAITING'`,
    );
    return ms;
  }

  function asAdmin<Rows>(query: string): Promise<Rows> {
    return servers.postgres.admin.unsafe(query) as unknown as Promise<Rows>;
  }
}
