import { setTimeout as sleep } from 'node:timers/promises';
import { onKafka, type Blow, type Fault } from './fault.ts';
import type { Hop, Weather } from './proxy.ts';

const FAIR: Weather = { kind: 'fair' };
const OUTBOX_FULL = 50306;
const FULL_WITHIN_MS = 90_000;

/** What happens on the ways between processes. */
export const faultsOfWays: Fault[] = [
  {
    name: 'answers of Redis lost after the script ran',
    expected: 'repeated with its Idempotency-Key, a call is debited once',
    on: (kind) => !kind.cluster,
    async make({ stage, random }) {
      await weather(stage.hopsTo('redis'), { kind: 'deaf', share: 0.05, random }, random.between(3_000, 5_000));
    },
  },
  {
    name: 'one api writes late to redis',
    expected: 'what it writes late replaces nothing newer',
    on: (kind) => !kind.cluster,
    verifyWithinMs: 2_500,
    async make({ stage }) {
      await weather([stage.hops.get('api-1>redis')!], { kind: 'slow', delayMs: 250 }, 8_000);
    },
  },
  {
    name: 'kafka away for long',
    expected: 'verification goes on until the outbox is full, then 503 for metered calls; drains after',
    on: onKafka,
    make: (blow) => untilFull(blow, 'kafka'),
  },
  {
    name: 'clickhouse away for long',
    expected: 'verification goes on until the outbox is full, then 503 for metered calls; drains after',
    on: (kind) => kind.bus === 'redis',
    make: (blow) => untilFull(blow, 'clickhouse'),
  },
  {
    name: 'slow network, 300 ms on each hop',
    expected: 'deadlines hold, no pile-up, no double debit',
    async make({ stage, random }) {
      await weather([...stage.hops.values()], { kind: 'slow', delayMs: 40 }, 1_500);
      await weather([...stage.hops.values()], { kind: 'slow', delayMs: 300 }, random.between(2_500, 3_500));
    },
  },
  {
    name: 'any hop slow, cut, deaf or a black hole',
    expected: 'books exact',
    async make({ stage, random }) {
      for (let times = 8; times > 0; times--) {
        // What is between clients, programs and Redis is in the way of every call, the rest only now and then.
        const busy = [
          ...stage.hopsTo('redis'),
          ...[...stage.hops.values()].filter(isClients),
          ...stage.hopsTo('kafka'),
        ];
        const hops = [random.pick(busy), random.pick([...stage.hops.values()])];
        const kinds: Weather[] = [
          { kind: 'slow', delayMs: random.between(20, 800) },
          { kind: 'cut' },
          { kind: 'deaf', share: 0.1, random },
          // A client would wait for nothing behind a hole of its own.
          ...(hops.some(isClients) ? [] : [{ kind: 'hole' } as const]),
        ];
        await weather(hops, random.pick(kinds), random.between(400, 1_200));
      }
    },
  },
];

const isClients = ({ name }: Hop) => name.startsWith('client>');

async function weather(hops: Hop[], kind: Weather, forMs: number): Promise<void> {
  for (const hop of hops) hop.set(kind);
  await sleep(forMs);
  for (const hop of hops) hop.set(FAIR);
}

async function untilFull({ stage, verifier, complain }: Blow, server: string): Promise<void> {
  const refused = () => verifier.codes.get(OUTBOX_FULL) ?? 0;
  const until = performance.now() + FULL_WITHIN_MS;
  for (const hop of stage.hopsTo(server)) hop.set({ kind: 'cut' });
  while (refused() < 50 && performance.now() < until) await sleep(50);
  if (refused() === 0) complain(`with ${server} away for ${FULL_WITHIN_MS / 1000} s the outbox was never full`);
  // What they had in hand has to come again from where it waits.
  for (const name of stage.programs.filter((one) => /^(consumer|relay)/.test(one))) stage.signal(name, 'SIGKILL');
  await sleep(500);
  for (const hop of stage.hopsTo(server)) hop.set(FAIR);
}
