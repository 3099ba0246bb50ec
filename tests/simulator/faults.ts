import type { Seed } from './crew.ts';
import { readBooked } from './proofs.ts';
import type { Becomes } from './redis-server.ts';
import type { Fate, Request } from './simulation.ts';

/** What goes wrong, and how often. Each can be switched off. */
export const faultKinds = { deaths: 2, pauses: 2, losses: 1.5, messages: 2.5, commits: 1, jumps: 0.5, fullness: 1 };
export type Fault = keyof typeof faultKinds;

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

/** What goes wrong in a seed, until it is ended. */
export function makeFaults({ simulation, stage, crew, work, others, pass, settle, runOne }: Seed) {
  const { random, say } = simulation;
  const { redis, postgres, books } = stage.servers;
  let troubled: { server: string; left: number; fates: Fate[] } | undefined;
  let commitsTroubled = 0;
  let aimed: { at: string; fate: Fate; after?: () => Promise<void> }[] = [];
  let shortFor = 0;
  let next: (() => Promise<void>)[] = [];
  simulation.setFates(fateOf);
  postgres.setCommitFates(() => {
    if (commitsTroubled === 0) return 'done';
    commitsTroubled -= 1;
    return random.pick(['fails before', 'deadlock', 'lost after', 'done']);
  });

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

  const faults: Record<Fault, () => Promise<void>> = {
    async deaths() {
      const all = crew.living();
      if (all.length > 3 && random.chance(0.5))
        troubled = { server: random.pick(['redis', 'postgres', 'clickhouse']), left: 1, fates: ['fatal'] };
      else if (all.length > 3 || random.chance(0.3)) await simulation.kill(random.pick(all));
      if (random.chance(0.7)) crew.startAll();
    },
    async pauses() {
      if (random.chance(0.5)) {
        // Another change, by another api, overtakes the one that stands still.
        crew.startAll(2);
        const { promise, resolve } = Promise.withResolvers<void>();
        aimed.push({ at: 'apply', fate: 'paused', after: async () => resolve() });
        void work.actions.changeTwice(promise);
      } else aimed.push({ at: random.pick(AIMS), fate: 'paused' });
    },
    async losses() {
      if (!redis.isUp()) return redis.start();
      if (random.chance(0.2)) return loseWhatIsBooked();
      if (random.chance(0.5)) {
        // Just after events were read from it, or are in the books; or while a consumer has them in its hands.
        const [at, fate, becomes] = random.pick(AIMED_LOSSES);
        aimed.push({ at, fate, after: () => loseAndStart(becomes) });
        // What is in those hands comes late, and others are debited while its records are rebuilt.
        if (fate === 'paused') aimed.push({ at: 'update unsettled_records', fate: 'done', after: verifyUnbooked });
        return;
      }
      await lose(random.weighted(LOSSES) as Becomes);
      if (random.chance(0.8)) await redis.start();
    },
    async messages() {
      if (random.chance(0.4)) {
        aimed.push({ at: random.pick(AIMS), fate: random.pick(['refused', 'lost', 'lost', 'late']) });
        return;
      }
      troubled = {
        server: random.weighted({ ...TROUBLED, kafka: crew.bus === 'kafka' ? 1 : 0 }),
        left: 1 + random.below(5),
        fates: random.pick([['refused'], ['lost'], ['late'], ['done', 'refused', 'lost', 'late']] as Fate[][]),
      };
      say(`the next requests to ${troubled.server} are ${troubled.fates.join()}`);
    },
    async commits() {
      commitsTroubled = 1 + random.below(2);
    },
    async jumps() {
      const ms = random.pick([-60_000, -4_000, -500, 500, 4_000, 3_600_000]);
      say(`the clocks jump by ${ms} ms`);
      if (ms < 0) work.noteSetBack();
      simulation.jump(ms);
      await pass(0, 0);
    },
    async fullness() {
      others.noteFull();
      if (random.chance(0.5)) {
        say('redis is short of memory');
        redis.setShort(true);
        shortFor = 20;
        return pass(500);
      }
      say('redis is full');
      await redis.setFull(true);
      await pass(random.pick([100, 2_000]), 0.3);
      for (let some = random.below(30); some > 0 && (await runOne()); some--);
      await redis.setFull(false);
    },
  };

  /** What is debited now comes to the books later than a record that is noted now can be rebuilt. */
  async function verifyUnbooked(): Promise<void> {
    aimed.push({ at: 'insert into usage_events', fate: 'paused' });
    verifySome(4);
  }

  function verifySome(count: number): void {
    for (let some = 0; some < count; some++)
      void work.actions.verify().catch((error: Error) => work.breaks(String(error.stack)));
  }

  /** Redis comes back without what the books have, once nobody has any of it in hand: nothing that comes late tells of it. */
  async function loseWhatIsBooked(): Promise<void> {
    redis.cutOffReplica();
    crew.startAll();
    verifySome(3);
    await comeIn();
    if (random.chance(0.5)) {
      await loseAndStart('emptied');
      await comeIn();
    }
    await loseAndStart('those of a replica that lagged');
  }

  /** All that is asked and debited comes to its place. */
  async function comeIn(): Promise<void> {
    for (let round = 0; round < 15; round++) {
      await settle();
      await pass(200);
    }
  }

  async function loseAndStart(becomes: Becomes): Promise<void> {
    if (!redis.isUp()) return;
    await lose(becomes);
    await redis.start();
  }

  async function lose(becomes: Becomes): Promise<void> {
    if (becomes === 'kept') return redis.stop(becomes);
    const booked = await readBooked(books.real, stage.beginning.workspaceId);
    const outlivesUntilMs = redis.outlivesUntilMs(becomes);
    await redis.stop(becomes);
    if (work.model.losses === 0) crew.forgetDeaths();
    for (const { noteLoss } of [work, others])
      noteLoss(outlivesUntilMs, (debit) => booked.of(debit).count >= debit.alike, becomes !== 'its tail lost');
  }

  return {
    faults,
    /** What was to happen after the requests that were done last. */
    takeNext: () => next.splice(0),
    /** Another step begins. */
    step(): void {
      if (shortFor > 0 && (shortFor -= 1) === 0) redis.setShort(false);
    },
    async end(): Promise<void> {
      say('faults end');
      [troubled, aimed, next, commitsTroubled] = [undefined, [], [], 0];
      simulation.resume();
      redis.setShort(false);
      if (!redis.isUp()) await redis.start();
    },
  };
}
