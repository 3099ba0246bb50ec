import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { makeReceiverCertificate, startReceiver, type Receiver } from '../../apps/webhooks/helpers/receiver.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { readJson } from '../../apps/stack/process/files.ts';
import { freePorts } from '../../apps/stack/process/ports.ts';
import { answersOk, type Program } from '../../apps/stack/process/program.ts';
import { makeSupervisor, type Supervisor } from '../../apps/stack/process/supervisor.ts';
import { stopOrder } from '../../apps/stack/servers/programs.ts';
import { startOtlpReceiver, type OtlpReceiver } from '../helpers/otlp-receiver.ts';
import { unmountBelow, type Disk } from '../helpers/disk.ts';
import type { Member } from '../helpers/redis-cluster.ts';
import { signalProcessTree } from './breaking/process-tree.ts';
import { openProxy, type Proxy } from './breaking/proxy.ts';
import type { StageKind } from './stage-kind.ts';
import { makeMoves, type Moves } from './stage-moves.ts';
import { ofVersion, preparePrograms, PROGRAMS } from './stage-programs.ts';
import { startServers, type StageServers } from './stage-servers.ts';

/** A whole stack of real servers and programs, two of each program, with a proxy between any two that speak. */
export type Stage = {
  kind: StageKind;
  token: string;
  /** The proxies, by "from>to": `verify-1>redis`, `client>api-1`. */
  proxies: Map<string, Proxy>;
  /** The proxies that lead to a server. */
  proxiesTo(server: string): Proxy[];
  /** Where a client reaches one of our programs. */
  url(program: string): string;
  programs: string[];
  /** The disks of servers that have one of their own. */
  disks: Map<string, Disk>;
  members: Member[];
  /** Clients of Redis itself, past the proxies. */
  redis: Redis[];
  /** Where webhooks are told, on a stage that has them. */
  receiver: Receiver | undefined;
  /** Where telemetry is sent, on a stage whose requests are traced. */
  collector: OtlpReceiver | undefined;
  brokers: string;
  /** The database itself, past the proxies, for its owner. */
  postgresUrl: string;
  /** What an operator does with the data of servers. */
  moves: Moves;
  pid(name: string): number | undefined;
  signal(name: string, signal: NodeJS.Signals): void;
  setClock(name: string, wrongByMs: number): void;
  /** Starts one more program like another one of the stage, under a name of its own. */
  addLike(name: string, like: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Starts a program that does not run, as the version of a checkout has it; nothing if that has none. */
  start(name: string, root: string): Promise<void>;
  isReady(program: string): Promise<boolean>;
  allReady(): Promise<boolean>;
  stop(): Promise<void>;
};

// Requests of up to 350 KB: all of them would be some hundred MB in ten minutes.
const KEPT_TRACES = 100;
const TRACED = { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.5', OTEL_METRICS_EXPORTER: 'none' };

/** Starts everything in a folder; leaves nothing running when something can't be started. */
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
  const [postgres = 0, redis = 0, clickhouse = 0, kafka = 0, kafkaController = 0, ...ports] = await freePorts(
    5 + PROGRAMS,
  );
  const serverPorts = { postgres, redis, clickhouse, kafka, kafkaController };
  const proxies = new Map<string, Proxy>();
  const openProxyTo = async (from: string, to: string, port: number) => {
    const name = `${from}>${to}`;
    const proxy = await openProxy(name, port);
    proxies.set(name, proxy);
    return proxy.port;
  };
  const started = await startServers({ folder, kind, supervisor, ports: serverPorts, openProxyTo });
  const certificate = kind.from ? makeReceiverCertificate(folder) : undefined;
  const receiver = certificate && (await startReceiver(certificate));
  const told = receiver && {
    WEBHOOK_ALLOWED_TARGETS: `*=${receiver.target}`,
    NODE_EXTRA_CA_CERTS: certificate.certificate,
  };
  const collector = kind.traced ? await startOtlpReceiver({ keeps: KEPT_TRACES }) : undefined;
  const env = { ...told, ...(collector && { ...TRACED, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }) };
  const programs = await preparePrograms({ folder, kind, started, serverPorts, ports, openProxyTo, env });
  const ofCluster = started.members.map(({ address }) => `redis://${address}`);
  const redisUrls = kind.cluster ? ofCluster : [started.servers.redisUrl];
  const redisClients = redisUrls.map(connectPast);
  const clients = { receiver, collector, redis: redisClients };
  const stage = makeStage({ folder, kind, supervisor, started, programs, proxies, ...clients });
  if (kind.from) await stage.moves.setRedisUsers(kind.from);
  await Promise.all(programs.map(({ name }) => stage.start(name, kind.from ?? checkout)));
  return stage;
}

function connectPast(url: string): Redis {
  return new Redis(url, { maxRetriesPerRequest: null }).on('error', () => {});
}

type Running = {
  folder: string;
  kind: StageKind;
  supervisor: Supervisor;
  started: StageServers;
  programs: Program[];
  proxies: Map<string, Proxy>;
  receiver: Receiver | undefined;
  collector: OtlpReceiver | undefined;
  redis: Redis[];
};

/** The stage as faults and load see it. */
function makeStage(running: Running): Stage {
  const { folder, kind, supervisor, started, programs, proxies, receiver, collector, redis } = running;
  const { token, disks, members, addresses } = started;
  const programOf = (name: string) => programs.find((one) => one.name === name)!;
  const up = new Set<string>();
  const pid = (name: string) =>
    readJson<Record<string, { pid: number }>>(join(folder, 'processes.json'))?.[name]?.pid ?? undefined;

  return {
    kind,
    token,
    proxies,
    proxiesTo: (server) => [...proxies.values()].filter(({ name }) => name.endsWith(`>${server}`)),
    url: (program) => `http://127.0.0.1:${proxies.get(`client>${program}`)!.port}`,
    programs: programs.map(({ name }) => name),
    disks,
    members,
    redis,
    receiver,
    collector,
    brokers: addresses.KAFKA_BROKERS ?? '',
    postgresUrl: addresses.DATABASE_URL,
    moves: makeMoves({ folder, supervisor, started, programs, admin: redis[0]! }),
    pid,
    signal(name, signal) {
      const found = pid(name);
      if (found !== undefined) signalProcessTree(found, signal);
    },
    setClock(name, wrongByMs) {
      writeFileSync(programOf(name).env['CLOCK_FILE']!, String(wrongByMs));
      const found = pid(name);
      if (found !== undefined) process.kill(found, 'SIGUSR2');
    },
    async addLike(name, like) {
      const [port = 0] = await freePorts(1);
      const program = programOf(like);
      const isReady = () => answersOk(`http://127.0.0.1:${port}/readyz`);
      await supervisor.add({ ...program, name, port, env: { ...program.env, PORT: String(port) }, isReady });
    },
    async remove(name) {
      up.delete(name);
      await supervisor.remove(name);
    },
    async start(name, root) {
      const program = ofVersion(programOf(name), root);
      if (!program) return;
      await supervisor.add(program);
      up.add(name);
    },
    isReady: (name) => programOf(name).isReady(),
    async allReady() {
      const ready = await Promise.all([...up].map((name) => programOf(name).isReady()));
      return ready.every(Boolean);
    },
    stop: () => stopAll(running),
  };
}

async function stopAll(running: Running): Promise<void> {
  const { folder, supervisor, started, programs, proxies, receiver, collector, redis } = running;
  for (const client of redis) client.disconnect();
  const names = programs.map(({ name }) => name);
  await supervisor.stop(stopOrder.flatMap((which) => names.filter((name) => name.startsWith(`${which}-`))));
  for (const { client, running } of started.members) {
    client.disconnect();
    signalProcessTree(running.pid, 'SIGKILL');
  }
  await Promise.all([...[...proxies.values()].map((proxy) => proxy.close()), receiver?.stop(), collector?.stop()]);
  await unmountBelow(folder);
}
