import { setTimeout as sleep } from 'node:timers/promises';
import { kafkaDuplicates, outboxDuplicates } from './duplicates.ts';
import { waitedForCore } from '../../helpers/core-clock.ts';
import { untilWritten } from '../../helpers/own-redis.ts';
import { onKafka, onPlainRedis, type FaultContext, type Fault } from './fault.ts';

const GONE_AFTER_MS = 30_000;
const DELIVERS_WITHIN_MS = 10_000;
const HOUR_MS = 3_600_000;

/** What happens to processes: they die, freeze, run twice under one name, or have a wrong clock. */
export const faultsOfProcesses: Fault[] = [
  {
    name: 'nothing',
    expected: 'no violation, so that those of other faults have a cause',
    verifyWithinMs: 1_500,
    manageWithinMs: 3_000,
    make: () => sleep(2_000),
  },
  {
    name: 'kill -9 of api, verify, relay, consumer',
    expected: 'each is back within 3 s',
    async make(context) {
      const { stage, random } = context;
      const victims = [...random.shuffled(stage.programs), random.pick(stage.programs)];
      for (const victim of victims) {
        context.stage.signal(victim, 'SIGKILL');
        await comesBack(context, victim);
        await sleep(random.between(0, 200));
      }
    },
  },
  {
    name: 'kill -9 of consumer, relay in the middle of a batch',
    expected: 'books exact',
    verifyWithinMs: 2_500,
    async make(context) {
      const { stage, random } = context;
      const consumers = stage.programs.filter((name) => name.startsWith('consumer'));
      for (const victim of [...random.shuffled(consumers), ...random.shuffled(consumers)])
        await killMidway(context, `${victim}>clickhouse`, /INSERT\WINTO\Wusage_events/i, [victim]);
      const relays = stage.programs.filter((name) => name.startsWith('relay'));
      for (let times = relays.length; times > 0; times--) await killMidway(context, 'all>kafka', /"b":"bill_/, relays);
    },
  },
  ...['postgres', 'clickhouse'].map((server): Fault => ({
    name: `kill -9 of ${server}`,
    expected: 'verification goes on',
    verifyWithinMs: 2_500,
    make: (context) => killAgain(context, server),
  })),
  {
    name: 'kill -9 of redis',
    expected: '503, then on',
    on: onPlainRedis,
    make: (context) => killAgain(context, 'redis'),
  },
  {
    name: 'kill -9 of kafka',
    expected: 'verification goes on until the outbox is full',
    on: onKafka,
    manageWithinMs: 3_000,
    make: (context) => killAgain(context, 'kafka'),
  },
  {
    name: 'redis frozen',
    expected: '503 until it goes on, none of them debited',
    on: onPlainRedis,
    async make({ stage, random, during }) {
      for (let times = 3; times > 0; times--) {
        // The span ends before Redis goes on: no call that is answered until then can have been decided.
        stage.signal('redis', 'SIGSTOP');
        await during('redis-frozen', () => sleep(random.between(900, 1_300)));
        stage.signal('redis', 'SIGCONT');
        await sleep(random.between(400, 900));
      }
    },
  },
  {
    name: 'postgres frozen',
    expected: 'verification unaffected, management 503 within its deadline',
    verifyWithinMs: 2_500,
    async make({ stage, random }) {
      stage.signal('postgres', 'SIGSTOP');
      await sleep(random.between(7_500, 9_000));
      stage.signal('postgres', 'SIGCONT');
    },
  },
  {
    name: 'clock wrong by hours',
    expected: 'limits, days and expiry unaffected',
    verifyWithinMs: 1_500,
    async make({ stage, random }) {
      const wrong = stage.programs.filter((name) => /^(verify|consumer|relay)/.test(name));
      for (const name of wrong) stage.setClock(name, random.pick([-1, 1]) * random.between(2, 30) * HOUR_MS);
      await sleep(2_500);
      for (const name of random.shuffled(wrong).slice(0, 2)) stage.setClock(name, 0);
      await sleep(1_500);
      for (const name of wrong) stage.setClock(name, 0);
    },
  },
  {
    name: 'two consumers own the same entries',
    expected: 'books exact',
    verifyWithinMs: 1_500,
    async make(context) {
      const { stage, random } = context;
      if (stage.kind.bus === 'kafka') {
        // Longer than its session: when it goes on with its batch, another consumer has its partitions.
        const frozen = random.pick(['consumer-1', 'consumer-2']);
        stage.signal(frozen, 'SIGSTOP');
        await sleep(random.between(8_000, 9_000));
        stage.signal(frozen, 'SIGCONT');
        return sleep(1_000);
      }
      // A second consumer of the same name is given the same entries.
      await stage.addLike('twin', 'consumer-1');
      await sleep(random.between(2_000, 3_000));
      stage.signal(random.pick(['twin', 'consumer-1']), 'SIGKILL');
      await sleep(1_000);
      await stage.remove('twin');
    },
  },
  {
    name: 'duplicates and reordering',
    expected: 'books exact',
    on: onPlainRedis,
    verifyWithinMs: 1_500,
    make: async (context) => {
      await outboxDuplicates(context);
      if (context.stage.kind.bus === 'kafka') await kafkaDuplicates(context);
    },
  },
];

/** Kills programs while a delivery of theirs is on its way, so that none of it arrives. */
async function killMidway(context: FaultContext, way: string, delivery: RegExp, victims: string[]): Promise<void> {
  const { stage } = context;
  const proxy = stage.proxies.get(way)!;
  proxy.set({ kind: 'slow', delayMs: 100 });
  await proxy.sees(delivery, DELIVERS_WITHIN_MS);
  proxy.set({ kind: 'cut' });
  for (const victim of victims) stage.signal(victim, 'SIGKILL');
  proxy.set({ kind: 'healthy' });
  await Promise.all(victims.map((victim) => comesBack(context, victim)));
}

async function killAgain({ stage, random }: FaultContext, server: string): Promise<void> {
  for (let times = random.between(1, 2); times > 0; times--) {
    if (server === 'redis') await untilWritten(stage.redis[0]!);
    stage.signal(server, 'SIGKILL');
    await sleep(random.between(1_500, 3_000));
  }
}

async function comesBack({ stage, returned, complain }: FaultContext, name: string): Promise<void> {
  const killed = performance.now();
  const dead = stage.pid(name);
  // processes.json still lists a killed process for a moment.
  while (stage.pid(name) === dead && performance.now() - killed < 500) await sleep(10);
  while (!(await stage.isReady(name))) {
    if (performance.now() - killed > GONE_AFTER_MS) return complain(`${name} was killed and is not back`);
    await sleep(20);
  }
  const tookMs = performance.now() - killed;
  returned(name, { tookMs: Math.round(tookMs), waitedMs: Math.round(waitedForCore(stage.pid(name))) });
}
