import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import type { Bus, Home } from '../../apps/stack/process/home.ts';
import { readJson } from '../../apps/stack/process/json-file.ts';
import { prepareKafka } from '../../apps/stack/servers/kafka.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import type { Program } from '../../apps/stack/process/program.ts';
import { answersOk } from '../../apps/stack/process/program.ts';
import { ourProgram, programEnvironment, runOnce, stopOrder } from '../../apps/stack/servers/programs.ts';
import { startRedisCluster, type Member } from '../helpers/redis-cluster.ts';
import { prepareServers } from '../../apps/stack/servers/servers.ts';
import { makeSupervisor, type Supervisor } from '../../apps/stack/process/supervisor.ts';
import { mountDisk, unmountBelow, type Disk } from '../helpers/disk.ts';
import { signalFamily } from './breaking/process-tree.ts';
import { openHop, type Hop } from './breaking/proxy.ts';

export type StageKind = { bus: Bus; cluster?: boolean; minReplicas?: number; disks?: boolean };

/** A whole stack of real servers and programs, two of each program, with a hop between any two that speak. */
export type Stage = {
  kind: StageKind;
  token: string;
  /** The hops, by "who>whom": `verify-1>redis`, `client>api-1`. */
  hops: Map<string, Hop>;
  /** The hops that lead to a server, or from a program. */
  hopsTo(server: string): Hop[];
  /** Where a client reaches one of our programs. */
  url(program: string): string;
  programs: string[];
  /** The disks of servers that have one of their own. */
  disks: Map<string, Disk>;
  members: Member[];
  /** Redis itself, past the hops. */
  redis: Redis[];
  brokers: string;
  pid(name: string): number | undefined;
  signal(name: string, signal: NodeJS.Signals): void;
  setClock(name: string, wrongByMs: number): void;
  /** Starts a further program, under a name of its own, as another one of the stage is started. */
  addLike(name: string, like: string): Promise<void>;
  remove(name: string): Promise<void>;
  isReady(program: string): Promise<boolean>;
  allReady(): Promise<boolean>;
  stop(): Promise<void>;
};

// Less than comes in half a minute, more than in the time for which Postgres is frozen.
const OUTBOX_MAX_ENTRIES = 3_500;
const DISK_MB = { postgres: 500, redis: 300, clickhouse: 700, kafka: 700 };

/** Starts everything in a folder; what can't be started leaves nothing running. */
export async function openStage(folder: string, kind: StageKind): Promise<Stage> {
  mkdirSync(join(folder, 'logs'), { recursive: true, mode: 0o711 });
  const supervisor = makeSupervisor({
    folder,
    logFile: (name) => join(folder, 'logs', `${name}.log`),
    say: (line) => writeFileSync(join(folder, 'logs', 'supervisor.log'), `${line}\n`, { flag: 'a' }),
  });
  try {
    return await startAll(folder, kind, supervisor);
  } catch (error) {
    await supervisor.stop([]);
    await unmountBelow(folder);
    throw error;
  }
}

async function startAll(folder: string, kind: StageKind, supervisor: Supervisor): Promise<Stage> {
  const { bus, cluster = false } = kind;
  const disks = new Map<string, Disk>();
  if (kind.disks) {
    for (const [server, megabytes] of Object.entries(DISK_MB)) {
      if (server !== 'kafka' || bus === 'kafka') disks.set(server, await mountDisk(join(folder, server), megabytes));
    }
  }

  const [postgres = 0, redis = 0, clickhouse = 0, kafka = 0, kafkaController = 0, ...own] = await freePorts(13);
  const hops = new Map<string, Hop>();
  const hop = async (from: string, to: string, port: number) => {
    const name = `${from}>${to}`;
    const opened = await openHop(name, port);
    hops.set(name, opened);
    return opened.port;
  };

  const servers = await prepareServers({ folder, ports: { postgres, redis, clickhouse } });
  // A cluster tells its clients its servers' own addresses: they go there past any hop.
  const members = cluster ? await startRedisCluster(join(folder, 'logs')) : [];
  const redisUrl = `redis+cluster://${members.map((one) => one.address).join()}`;
  const brokersPort = bus === 'kafka' ? await hop('all', 'kafka', kafka) : 0;
  const startKafka = async () => {
    if (bus !== 'kafka') return;
    // The address that Kafka tells its clients leads through the hop too.
    const settings = { 'advertised.listeners': `PLAINTEXT://127.0.0.1:${brokersPort}` };
    await supervisor.add(
      await prepareKafka({ folder: join(folder, 'kafka'), ports: { kafka, kafkaController }, settings }),
    );
  };
  const wanted = servers.programs.filter(({ name }) => !(cluster && name === 'redis'));
  await Promise.all([...wanted.map((program) => supervisor.add(program)), startKafka()]);
  await servers.createDatabase('keytally');

  const home: Home = { folder, bus, apiPort: 0, verifyPort: 0, apiUrl: '/', verifyUrl: '/' };
  const direct = {
    DATABASE_URL: servers.postgresUrl('keytally'),
    REDIS_URL: cluster ? redisUrl : servers.redisUrl,
    CLICKHOUSE_URL: `${servers.clickhouseUrl}/keytally`,
    ...(bus === 'kafka' && { KAFKA_BROKERS: `127.0.0.1:${brokersPort}` }),
  };
  const never = new AbortController().signal;
  const settled = programEnvironment(home, direct);
  await runOnce('apps/api/commands/migrate.ts', [], { ...settled, ...servers.rolePasswords }, never);
  const token = (await runOnce('apps/api/commands/token.ts', ['--team', 'faults'], settled, never)).trim();

  const kinds = ['api', 'verify', 'consumer', ...(bus === 'kafka' ? (['relay'] as const) : [])] as const;
  const programs: Program[] = [];
  for (const [i, which] of kinds.flatMap((which) => [which, which]).entries()) {
    const name = `${which}-${(i % 2) + 1}`;
    const through = async (url: string, server: string, port: number) =>
      url.replace(`127.0.0.1:${port}`, `127.0.0.1:${await hop(name, server, port)}`);
    const role = which === 'api' ? 'keytally_api' : 'keytally_consumer';
    const { DATABASE_URL: _, ...others } = settled;
    const env = {
      ...others,
      ...((which === 'api' || which === 'consumer') && {
        DATABASE_URL: await through(servers.postgresUrl('keytally', role), 'postgres', postgres),
      }),
      REDIS_URL: cluster ? redisUrl : await through(direct.REDIS_URL, 'redis', redis),
      CLICKHOUSE_URL: await through(direct.CLICKHOUSE_URL, 'clickhouse', clickhouse),
      CONSUMER_NAME: name,
      KAFKA_TOPIC_PARTITIONS: '4',
      OUTBOX_MAX_ENTRIES: String(OUTBOX_MAX_ENTRIES),
      REQUEST_DEADLINE_MS: '6500',
      LOG_LEVEL: 'info',
      CLOCK_FILE: join(folder, `${name}.clock`),
      ...(kind.minReplicas !== undefined && { REDIS_MIN_REPLICAS: String(kind.minReplicas) }),
    };
    const program = ourProgram(which, name, own[i]!, env);
    const preload = ['--import', join(import.meta.dirname, 'breaking/wrong-clock.ts')];
    programs.push({ ...program, args: [...preload, ...program.args] });
    if (which === 'api' || which === 'verify') await hop('client', name, own[i]!);
  }
  await Promise.all(programs.map((program) => supervisor.add(program)));

  const addresses = cluster ? members.map(({ program }) => program.port) : [redis];
  const clients = addresses.map((port) => {
    const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
    return client.on('error', () => {});
  });
  const pid = (name: string) =>
    readJson<Record<string, { pid: number }>>(join(folder, 'processes.json'))?.[name]?.pid ?? undefined;

  return {
    kind,
    token,
    hops,
    hopsTo: (server) => [...hops.values()].filter(({ name }) => name.endsWith(`>${server}`)),
    url: (program) => `http://127.0.0.1:${hops.get(`client>${program}`)!.port}`,
    programs: programs.map(({ name }) => name),
    disks,
    members,
    redis: clients,
    brokers: `127.0.0.1:${brokersPort}`,
    pid,
    signal(name, signal) {
      const found = pid(name);
      if (found !== undefined) signalFamily(found, signal);
    },
    setClock(name, wrongByMs) {
      const program = programs.find((one) => one.name === name)!;
      writeFileSync(program.env['CLOCK_FILE']!, String(wrongByMs));
      const found = pid(name);
      if (found !== undefined) process.kill(found, 'SIGUSR2');
    },
    async addLike(name, like) {
      const [port = 0] = await freePorts(1);
      const program = programs.find((one) => one.name === like)!;
      const isReady = () => answersOk(`http://127.0.0.1:${port}/readyz`);
      await supervisor.add({ ...program, name, port, env: { ...program.env, PORT: String(port) }, isReady });
    },
    remove: (name) => supervisor.remove(name),
    isReady: (name) => programs.find((one) => one.name === name)!.isReady(),
    async allReady() {
      const ready = await Promise.all(programs.map((program) => program.isReady()));
      return ready.every(Boolean);
    },
    async stop() {
      for (const client of clients) client.disconnect();
      const all = programs.map(({ name }) => name);
      await supervisor.stop(stopOrder.flatMap((which) => all.filter((name) => name.startsWith(`${which}-`))));
      for (const { client, running } of members) {
        client.disconnect();
        signalFamily(running.pid, 'SIGKILL');
      }
      await Promise.all([...hops.values()].map((one) => one.close()));
      await unmountBelow(folder);
    },
  };
}
