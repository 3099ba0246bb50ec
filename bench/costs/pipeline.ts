import { setTimeout as sleep } from 'node:timers/promises';
import { StackError } from '../../apps/stack/process/errors.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { ourProgram } from '../../apps/stack/servers/programs.ts';
import { outboxState } from '../../shared/events/outbox-watch.ts';
import { connectClickHouse, readRows } from '../../shared/stores/clickhouse.ts';
import type { Contender } from '../rounds.ts';
import type { Stage } from '../stage.ts';
import { usageOf } from '../watch.ts';
import type { World } from '../world.ts';

/** A contender that has its name elsewhere. */
export type Row = Omit<Contender, 'name'>;

export type Pipeline = {
  /** Addresses of its verify and its api. */
  url: string;
  apiUrl: string;
  /** Of all that runs. */
  pids: Contender['pids'];
  /** A row whose calls this verify decides, or one that the row names: their way into the books counts too. */
  verifying(row: Row): Row;
  /** Waits until all is in the books, and they rest. */
  settle(): Promise<void>;
  /** Stops it, and throws unless the books have each call that was answered. */
  stop(): Promise<void>;
};

const LOOK_EVERY_MS = 100;
const DRAINED_WITHIN_MS = 300_000;
// ClickHouse merges what was inserted. It is done when it takes less than this part of a core.
const IDLE_SHARE = 0.15;

/** Starts all programs in a world. */
export async function startPipeline(stage: Stage, world: World): Promise<Pipeline> {
  const { redis, env, name } = world;
  const [verify = 0, consumer = 0, api = 0, webhooks = 0] = await freePorts(4);
  const programs = [
    // On a busy machine a verification may take longer than it may elsewhere, and one that is refused ends the run.
    ourProgram('verify', 'costs-verify', verify, { ...env, VERIFY_DEADLINE_MS: '10000' }),
    ourProgram('consumer', 'costs-consumer', consumer, { ...env, CONSUMER_NAME: 'consumer' }),
    ourProgram('api', 'costs-api', api, env),
    ourProgram('webhooks', 'costs-webhooks', webhooks, env),
  ] as const;
  const pids = {
    verify: await stage.start(programs[0]),
    redis: stage.pidOf(`redis-${name}`),
    consumer: await stage.start(programs[1]),
    clickhouse: stage.pidOf('clickhouse'),
    others: [await stage.start(programs[2]), await stage.start(programs[3]), stage.pidOf('postgres')],
  };
  let answered = 0;

  async function settle(): Promise<void> {
    const until = performance.now() + DRAINED_WITHIN_MS;
    const clickhouse = () => usageOf(pids.clickhouse)[0]?.cpuSeconds ?? 0;
    for (let before = clickhouse(); ; before = clickhouse()) {
      const began = performance.now();
      await sleep(LOOK_EVERY_MS);
      const share = (1000 * (clickhouse() - before)) / (performance.now() - began);
      if (share < IDLE_SHARE && (await outboxState(redis)).events === 0) return;
      if (performance.now() > until)
        throw new StackError(`the events did not reach the books within ${DRAINED_WITHIN_MS / 1000} s`);
    }
  }

  return {
    url: `http://127.0.0.1:${verify}`,
    apiUrl: `http://127.0.0.1:${api}`,
    pids,
    settle,
    verifying: (row) => ({
      pids: { ...pids, ...row.pids },
      async prepare(seconds) {
        if (!row.prepare) return;
        await row.prepare(seconds);
        await settle();
      },
      async load(seconds) {
        const round = await row.load(seconds);
        answered += round.calls;
        return round;
      },
      settle,
    }),
    async stop() {
      for (const program of programs) await stage.supervisor.remove(program.name);
      const events = await takeEvents(env.CLICKHOUSE_URL!);
      if (events < answered) throw new StackError(`the books have ${events} events of ${answered} calls`);
    },
  };
}

/** Counts the events in the books, and empties these, so that merges cost the next processes no more. */
async function takeEvents(url: string): Promise<number> {
  const books = connectClickHouse(url);
  const [[events] = [0]] = await readRows<[number]>(books, 'select toFloat64(count()) from usage_events final');
  await books.client.command({ query: 'truncate table usage_events' });
  await books.close();
  return events;
}
