import { setTimeout as sleep } from 'node:timers/promises';
import { onKafka, onPlainRedis, type Fault, type FaultContext } from './fault.ts';
import { HEALTHY, type Condition, type Proxy } from './proxy.ts';

const OUTBOX_FULL = 50306;
const FULL_WITHIN_MS = 90_000;

/** What happens to the connections between processes. */
export const faultsOfConnections: Fault[] = [
  {
    name: 'answers of Redis lost after the script ran',
    expected: 'repeated with its Idempotency-Key, a call is debited once',
    on: onPlainRedis,
    async make({ stage, random }) {
      const lossy: Condition = { kind: 'lossy', share: 0.05, random };
      await hold(stage.proxiesTo('redis'), lossy, random.between(3_000, 5_000));
    },
  },
  {
    name: 'one api writes late to redis',
    expected: 'a late write replaces nothing newer',
    on: onPlainRedis,
    verifyWithinMs: 2_500,
    async make({ stage }) {
      await hold([stage.proxies.get('api-1>redis')!], { kind: 'slow', delayMs: 250 }, 8_000);
    },
  },
  {
    name: 'kafka unavailable for long',
    expected: 'verification goes on until the outbox is full, then 503 for metered calls; drains after',
    on: onKafka,
    make: (context) => untilFull(context, 'kafka'),
  },
  {
    name: 'clickhouse unavailable for long',
    expected: 'verification goes on until the outbox is full, then 503 for metered calls; drains after',
    on: (kind) => kind.bus === 'redis',
    make: (context) => untilFull(context, 'clickhouse'),
  },
  {
    name: 'slow network, 300 ms on each connection',
    expected: 'deadlines hold, no pile-up, no double debit',
    async make({ stage, random }) {
      await hold([...stage.proxies.values()], { kind: 'slow', delayMs: 40 }, 1_500);
      await hold([...stage.proxies.values()], { kind: 'slow', delayMs: 300 }, random.between(2_500, 3_500));
    },
  },
  {
    name: 'any connection slow, cut, lossy or a black hole',
    expected: 'books exact',
    async make({ stage, random }) {
      for (let times = 8; times > 0; times--) {
        // Every call goes through the proxies of clients, Redis and Kafka; the others carry something now and then.
        const busy = [
          ...stage.proxiesTo('redis'),
          ...[...stage.proxies.values()].filter(isClients),
          ...stage.proxiesTo('kafka'),
        ];
        const proxies = [random.pick(busy), random.pick([...stage.proxies.values()])];
        const conditions: Condition[] = [
          { kind: 'slow', delayMs: random.between(20, 800) },
          { kind: 'cut' },
          { kind: 'lossy', share: 0.1, random },
          // Behind a black hole of its own a client would only wait.
          ...(proxies.some(isClients) ? [] : [{ kind: 'black-hole' } as const]),
        ];
        await hold(proxies, random.pick(conditions), random.between(400, 1_200));
      }
    },
  },
];

const isClients = ({ name }: Proxy) => name.startsWith('client>');

/** Keeps proxies in a condition for a while. */
async function hold(proxies: Proxy[], condition: Condition, forMs: number): Promise<void> {
  for (const proxy of proxies) proxy.set(condition);
  await sleep(forMs);
  for (const proxy of proxies) proxy.set(HEALTHY);
}

/** Cuts a server off until verify refuses calls because the outbox is full. */
async function untilFull({ stage, verifier, complain }: FaultContext, server: string): Promise<void> {
  const refused = () => verifier.codes.get(OUTBOX_FULL) ?? 0;
  const until = performance.now() + FULL_WITHIN_MS;
  for (const proxy of stage.proxiesTo(server)) proxy.set({ kind: 'cut' });
  while (refused() < 50 && performance.now() < until) await sleep(50);
  if (refused() === 0) complain(`with ${server} unavailable for ${FULL_WITHIN_MS / 1000} s the outbox was never full`);
  // The entries that they were given and did not deliver must be delivered by the next process.
  for (const name of stage.programs.filter((one) => /^(consumer|relay)/.test(one))) stage.signal(name, 'SIGKILL');
  await sleep(500);
  for (const proxy of stage.proxiesTo(server)) proxy.set(HEALTHY);
}
