// Measures how fast each bus brings events from the outbox into the books, and what that costs, on servers of its own:
// node bench/pipeline/main.ts [--events N] [--bus redis|kafka]
import '../../shared/runtime/require-node.ts';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectRedis } from '../../shared/stores/redis.ts';
import { checkBooks, fillOutbox } from './events.ts';
import { printResults, readMetric, showProgress, usageOf, type Result, type Usage } from '../watch.ts';
import { makeStage, type Stage } from '../stage.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import type { Bus } from '../../apps/stack/process/home.ts';
import { prepareKafka } from '../../apps/stack/servers/kafka.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { ourProgram } from '../../apps/stack/servers/programs.ts';
import { runInTestFolder } from '../../tests/runner/servers.ts';

const LOOK_EVERY_MS = 250;
const STUCK_AFTER_MS = 60_000;

const { values } = parseArgs({
  options: { events: { type: 'string', default: '1000000' }, bus: { type: 'string', multiple: true } },
});
const events = Number(values.events);
const buses = (values.bus ?? ['redis', 'kafka']) as Bus[];
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(events >= 1_000) || buses.some((bus) => bus !== 'redis' && bus !== 'kafka')) {
    throw new StackError('usage: bench/pipeline/main.ts [--events N, 1000 or more] [--bus redis|kafka]');
  }
  console.log(`${events.toLocaleString('en')} events from the outbox to the books; starting servers`);
  const stage = await makeStage(folder);
  const results: Result[] = [];
  for (const bus of buses) results.push(await measure(bus, stage));
  await stage.supervisor.stop([]);
  printResults(results);
  if (results.some(({ wrong }) => wrong)) process.exitCode = 1;
}

/** Makes a backlog, lets one bus bring it into the books, and measures the processes while it does. */
async function measure(bus: Bus, stage: Stage): Promise<Result> {
  const { folder, servers, supervisor } = stage;
  const env = {
    PATH: process.env.PATH,
    DATABASE_URL: servers.postgresUrl('keytally_template'),
    REDIS_URL: servers.redisUrl,
    CLICKHOUSE_URL: `${servers.clickhouseUrl}/keytally_template`,
    BUS: bus,
    LOG_LEVEL: 'warn',
  };
  const [kafka = 0, kafkaController = 0, relay = 0, consumer = 0] = await freePorts(4);
  const programs = [ourProgram('consumer', 'consumer', consumer, { ...env, CONSUMER_NAME: 'consumer' })];
  if (bus === 'kafka') {
    await supervisor.add(await prepareKafka({ folder: join(folder, 'kafka'), ports: { kafka, kafkaController } }));
    const brokers = { KAFKA_BROKERS: `127.0.0.1:${kafka}` };
    for (const program of programs) program.env = { ...program.env, ...brokers };
    programs.push(ourProgram('relay', 'relay', relay, { ...env, ...brokers, CONSUMER_NAME: 'relay' }));
  }

  const redis = connectRedis(env.REDIS_URL, makeLogger('bench', 'error'), systemClock);
  await redis.connected(5_000);
  await fillOutbox(redis, events, (done) => showProgress(`${bus}: backlog`, done, events));
  await redis.close();

  const before = usages(stage);
  const began = performance.now();
  await Promise.all(programs.map((program) => supervisor.add(program)));
  let halfway = before;
  let moved = { done: 0, atMs: performance.now() };
  while (moved.done < events) {
    await sleep(LOOK_EVERY_MS);
    const done = await readMetric(consumer, 'keytally_consumed_events_total');
    showProgress(`${bus}: in the books`, Math.min(done, events), events, performance.now() - began);
    if (done > moved.done) moved = { done, atMs: performance.now() };
    if (done < events / 2) halfway = usages(stage);
    if (performance.now() - moved.atMs > STUCK_AFTER_MS) throw new StackError(`${bus}: stuck at ${moved.done} events`);
  }
  const seconds = (performance.now() - began) / 1000;
  const after = usages(stage);
  for (const { name } of programs) await supervisor.remove(name);
  if (bus === 'kafka') await supervisor.remove('kafka');
  const wrong = await checkBooks(env.CLICKHOUSE_URL, events);
  return { bus, seconds, perSecond: events / seconds, before, halfway, after, wrong };
}

/** What each process has used so far, by its name. */
function usages({ records }: Stage): Map<string, Usage> {
  return new Map(records().flatMap(({ name, pid }) => usageOf(pid).map((usage): [string, Usage] => [name, usage])));
}
