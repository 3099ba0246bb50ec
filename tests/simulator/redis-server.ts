import { Redis } from 'ioredis';
import { EventEmitter } from 'node:events';
import type { Logger } from '../../shared/runtime/log.ts';
import { nodeOf } from '../../shared/stores/redis-node.ts';
import { ofOneServer, type ShardedRedis } from '../../shared/stores/redis.ts';
import { makeLibrary, scriptText, useLibrary } from '../../shared/stores/scripts.ts';
import { byClock, setClock } from '../accounts/test-shard.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import type { Process, Simulation } from './simulation.ts';

// Databases of the real server: what is in use, what is on its disk, what a simulation begins with, and what a replica has.
const [LIVE, DISK, BEGINNING, REPLICA] = [0, 1, 2, 3];
/** What became of its data: all there; without what was written last, on its disk or on a replica that takes over; or gone. */
export type Becomes = 'kept' | 'its tail lost' | 'those of a replica that lagged' | 'emptied';
const FSYNC_EVERY_MS = 1_000;
const REPLICA_LAGS_MS = 4_000;
const RECONNECTS_AFTER_MS = 50;

// Everything but the clock.
const copyAll = `
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB')
redis.call('SELECT', ARGV[1])
for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', ARGV[2], 'REPLACE') end
return 1`;
// Lifetimes, and how long an entry is in somebody's hands, go by the clock of the machine; they have to go by that of the simulation. A
// lifetime that was seen is as much longer as no machine lives, and one more key tells how much of that has passed.
const age = `
local FAR, PROBE, passed = 1e13, '{07}:passed', tonumber(ARGV[1])
local probe = redis.call('PTTL', PROBE)
local elapsed = probe > 0 and FAR - probe or 0
for _, key in ipairs(redis.call('KEYS', '{*}:outbox')) do
  local pending = redis.pcall('XPENDING', key, '${OUTBOX_GROUP}', '-', '+', 10000)
  for _, one in ipairs(pending.err and {} or pending) do
    redis.call('XCLAIM', key, '${OUTBOX_GROUP}', one[2], 0, one[1], 'IDLE', math.max(0, one[3] - elapsed) + passed, 'JUSTID')
  end
end
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then
    if left > FAR / 2 then left = left - FAR + elapsed end
    if left > passed then redis.call('PEXPIRE', key, left - passed + FAR) else redis.call('UNLINK', key) end
  end
end
redis.call('SET', PROBE, '', 'PX', FAR)
return 1`;

export type RedisServer = Awaited<ReturnType<typeof makeRedisServer>>;

/**
 * A Redis whose life is simulated: the commands and scripts run on a real one, by the clock of the simulation. What is on its disk
 * is a second old at most.
 */
export async function makeRedisServer(url: string) {
  const real = new Redis(url, { maxRetriesPerRequest: 0 });
  const library = makeLibrary((name) => datingByClock(byClock(scriptText(name))));
  await real.function('LOAD', 'REPLACE', library.text);
  let simulation: Simulation;
  let starts = 0;
  let syncedAt = 0;
  let replicatedAt = 0;
  let agedAt = 0;
  let isUp = true;
  let isFull = false;
  let isShort = false;
  let isCutOff = false;
  let writesOfTicks = 0;
  let clients = new Set<EventEmitter>();

  const runId = () => `start${starts}`;
  const copy = (from: number, to: number) => real.eval(copyAll, 0, from, to);

  const setLimit = (full: boolean) => real.config('SET', 'maxmemory', full ? '1' : '0');

  /** What the simulation itself does there needs memory, too. */
  async function withMemory(work: () => Promise<unknown>): Promise<void> {
    if (isFull) await setLimit(false);
    await work();
    if (isFull) await setLimit(true);
  }

  async function writes(): Promise<number> {
    return Number(/^rdb_changes_since_last_save:(\d+)/m.exec(await real.info('persistence'))![1]);
  }

  async function tick(): Promise<void> {
    const now = simulation.passedMs();
    if (now > agedAt) await real.eval(age, 0, now - agedAt);
    agedAt = now;
    await setClock(real, simulation.nowMs());
  }

  return {
    real,
    /** Keeps what is there as the beginning of each simulation. */
    keepBeginning: () => copy(LIVE, BEGINNING),
    async begin(next: Simulation): Promise<void> {
      [simulation, starts, syncedAt, replicatedAt, agedAt, isUp, clients] = [next, 0, 0, 0, 0, true, new Set()];
      [isFull, isShort, isCutOff] = [false, false, false];
      await setLimit(false);
      await copy(BEGINNING, LIVE);
      for (const to of [DISK, REPLICA]) await copy(BEGINNING, to);
      await tick();
      writesOfTicks = await writes();
    },
    /** Brings it up to the time of the simulation. */
    async tick(): Promise<void> {
      const before = await writes();
      await withMemory(async () => {
        await tick();
        if (simulation.passedMs() - syncedAt < FSYNC_EVERY_MS) return;
        syncedAt = simulation.passedMs();
        await copy(LIVE, DISK);
        if (isCutOff || syncedAt - replicatedAt < REPLICA_LAGS_MS) return;
        replicatedAt = syncedAt;
        await copy(LIVE, REPLICA);
      });
      writesOfTicks += (await writes()) - before;
    },
    /** It stops, and has what became of its data when it is back. */
    async stop(becomes: Becomes): Promise<void> {
      simulation.say(`redis stops, its data ${becomes}`);
      isUp = false;
      for (const client of clients) client.emit('close');
      await simulation.disconnect('redis');
      await withMemory(async () => {
        if (becomes === 'its tail lost') await copy(DISK, LIVE);
        if (becomes === 'those of a replica that lagged') await copy(REPLICA, LIVE);
        if (becomes === 'emptied') await real.flushdb();
        if (becomes === 'those of a replica that lagged') isCutOff = false;
        if (becomes !== 'kept') for (const to of isCutOff ? [DISK] : [DISK, REPLICA]) await copy(LIVE, to);
        await tick();
      });
    },
    async start(): Promise<void> {
      simulation.say('redis starts');
      starts += 1;
      isUp = true;
      for (const client of clients) client.emit('back');
      await simulation.quiet();
    },
    isUp: () => isUp,
    /** What was written until then outlives what becomes of its data now. */
    outlivesUntilMs: (becomes: Becomes) =>
      ({ kept: Infinity, 'its tail lost': syncedAt, 'those of a replica that lagged': replicatedAt, emptied: -1 })[
        becomes
      ],
    /** What is still to be done there. */
    async unrest(): Promise<string> {
      const asked = real.pipeline();
      for (const shard of ALL_SHARDS) asked.xlen(keyspace.outbox(shard)).hget(keyspace.meta(shard), 'owner');
      const answers = (await asked.exec())!.map(([, answer]) => answer);
      const entries = answers.reduce<number>((sum, one, i) => sum + (i % 2 === 0 ? (one as number) : 0), 0);
      const closed = answers.filter((one, i) => i % 2 === 1 && one !== runId()).length;
      return [entries && `${entries} entries`, closed && `${closed} closed shards`].filter(Boolean).join(', ');
    },
    /** What should be gone once nothing is under way: holds, what lives for a minute at most, and what has no end and should have one. */
    async leftovers(): Promise<string[]> {
      const names = (await real.keys('{*}:*')).toSorted();
      const ends = await Promise.all(names.map((name) => real.pttl(name)));
      const kindOf = (name: string) => /^\{\d+\}:([a-z]):/.exec(name)?.[1] ?? '-';
      return names.filter(
        (name, i) => 'oerif'.includes(kindOf(name)) || ('lmyz'.includes(kindOf(name)) && ends[i]! < 0),
      );
    },
    async setFull(full: boolean): Promise<void> {
      isFull = full;
      await setLimit(full);
    },
    /** Its replica gets nothing more, until it takes over. */
    cutOffReplica: () => void (isCutOff = true),
    /** Whether it says that little of its memory is left. */
    setShort: (short: boolean) => void (isShort = short),
    connect: (process: Process, log: Logger): ShardedRedis => {
      const infoOf = async (section: unknown) => {
        if (section === 'memory') return memoryOf(isShort);
        if (section !== 'persistence') return stateOf(section, runId());
        return `${stateOf(section, runId())}rdb_changes_since_last_save:${(await writes()) - writesOfTicks}\r\n`;
      };
      const client = makeClient(process, () => isUp, infoOf, real, simulation);
      clients.add(client.events);
      process.onBroken(() => {
        client.events.emit('close');
        client.events.emit('back');
      });
      process.onDeath(async () => void clients.delete(client.events));
      useLibrary(client.redis, library);
      const redis = ofOneServer(nodeOf(client.redis, log, process.clock));
      client.connect();
      return redis;
    },
    close: () => real.disconnect(),
  };
}

/** What a process has of the server: an ioredis client whose every command is a request of the simulation. */
function makeClient(
  process: Process,
  isUp: () => boolean,
  infoOf: (section: unknown) => Promise<string>,
  real: Redis,
  simulation: Simulation,
) {
  const events = new EventEmitter();
  let connected = false;
  const run = (label: string, execute: () => Promise<unknown>) =>
    process.ask({
      server: 'redis',
      lane: process.name,
      label,
      async execute() {
        if (!isUp() || !connected) throw new Error('Connection is closed.');
        return execute();
      },
    });
  const connect = () => {
    connected = isUp();
    if (connected) queueMicrotask(() => events.emit('ready'));
  };
  events.on('close', () => (connected = false));
  events.on('back', () => void process.clock.after(RECONNECTS_AFTER_MS, connect));

  const time = () => {
    const now = simulation.nowMs();
    return [String(Math.floor(now / 1000)), String((now % 1000) * 1000)];
  };
  const bound = (['on', 'off', 'once', 'emit'] as const).map((name) => [name, events[name].bind(events)]);
  const own: Record<string, unknown> = {
    ...Object.fromEntries(bound),
    options: { host: 'redis', port: 6379 },
    time: () => run('time', async () => time()),
    // Each server has names in an order of its own.
    scan: (_cursor: string, _match: string, pattern: string) =>
      run('scan', async () => ['0', (await real.keys(pattern)).toSorted()]),
    info: (section: unknown) => run(`info ${String(section)}`, () => infoOf(section)),
    pipeline: () => {
      const commands: [name: string, args: unknown[]][] = [];
      const pipeline: Record<string, unknown> = new Proxy(
        {},
        {
          get(_, name) {
            if (name === 'length') return commands.length;
            if (name === 'exec')
              return () =>
                run(`${commands.length} commands: ${commands[0]?.[0]}`, async () => {
                  const sent = real.pipeline() as unknown as Record<string, (...args: unknown[]) => unknown>;
                  const rest = commands.filter(([command]) => command !== 'time');
                  for (const [command, args] of rest) {
                    if (command === 'xadd') sent['eval']!(addByClock, 1, ...args);
                    else sent[command]!(...args);
                  }
                  const answers = rest.length > 0 ? ((await sent['exec']!()) as unknown[]) : [];
                  return commands.map(([command]) => (command === 'time' ? [null, time()] : answers.shift()));
                });
            return (...args: unknown[]) => {
              commands.push([String(name), args]);
              return pipeline;
            };
          },
        },
      );
      return pipeline;
    },
  };
  const redis = new Proxy(own, {
    get: (_, name) =>
      own[String(name)] ??
      // It is no promise.
      (name === 'then'
        ? undefined
        : (...args: unknown[]) =>
            run(`${String(name)} ${String(args[0])}`, () =>
              (real as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>)[String(name)]!(...args),
            )),
  });
  return { redis: redis as unknown as Redis, events, connect };
}

// Redis dates what it appends to a stream by the clock of the machine.
function datingByClock(script: string): string {
  const dated = script.replace(/'XADD', ([^,]+), '\*'/g, `'XADD', $1, streamId($1)`);
  return dated === script ? script : streamId + dated;
}

const streamId = `
local function streamId(stream)
  local time = redis.call('HMGET', '{07}:clock', 's', 'us')
  local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local info = redis.pcall('XINFO', 'STREAM', stream)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then ms = math.max(ms, tonumber(string.match(info[i + 1], '^%d+'))) end
  end
  return string.format('%.0f-*', ms)
end
`;

// As a client adds to a stream: its name, a star for the date, and what it adds.
const addByClock = `${streamId}
ARGV[1] = streamId(KEYS[1])
return redis.call('XADD', KEYS[1], unpack(ARGV))`;

function stateOf(section: unknown, runId: string): string {
  if (section === 'server') return `run_id:${runId}\r\n`;
  if (section === 'replication') return 'role:master\r\n';
  if (section === 'persistence') return 'aof_enabled:1\r\naof_last_write_status:ok\r\naof_pending_bio_fsync:0\r\n';
  throw new Error(`nobody says what a simulated Redis has to say of ${String(section)}`);
}

function memoryOf(isShort: boolean): string {
  return `used_memory:${isShort ? 90 : 10}\r\nmem_not_counted_for_evict:0\r\nmaxmemory:100\r\n`;
}
