import { join } from 'node:path';
import { checkout, masterKeyFile, type Home } from '../../apps/stack/process/home.ts';
import type { Supervisor } from '../../apps/stack/process/supervisor.ts';
import { prepareKafka } from '../../apps/stack/servers/kafka.ts';
import { programEnvironment, runOnce, type Addresses } from '../../apps/stack/servers/programs.ts';
import { prepareServers, type Servers } from '../../apps/stack/servers/servers.ts';
import { mountDisk, type Disk } from '../helpers/disk.ts';
import { startRedisCluster, type Member } from '../helpers/redis-cluster.ts';
import type { StageKind } from './stage-kind.ts';

export type ServerPorts = Record<'postgres' | 'redis' | 'clickhouse' | 'kafka' | 'kafkaController', number>;

export type StageServers = {
  servers: Servers;
  /** Where the servers themselves are. Kafka is behind a proxy, which it names to its clients. */
  addresses: Addresses;
  /** What every program finds in its environment. */
  env: NodeJS.ProcessEnv;
  token: string;
  disks: Map<string, Disk>;
  /** The servers of a Redis Cluster; empty where Redis is a single server. */
  members: Member[];
};

type Options = {
  folder: string;
  kind: StageKind;
  supervisor: Supervisor;
  ports: ServerPorts;
  /** Opens a proxy between two processes; gives its port. */
  openProxyTo(from: string, to: string, port: number): Promise<number>;
};

// Faults kill servers of a cluster, which is to replace them soon.
const NODE_TIMEOUT_MS = 1_000;
const DISK_MB = { postgres: 500, redis: 300, clickhouse: 700, kafka: 700 };

/** Starts the servers of a stage, brings their schemas up to date, and makes a token. */
export async function startServers(options: Options): Promise<StageServers> {
  const { folder, kind, supervisor, ports, openProxyTo } = options;
  const { bus, cluster = false, from = checkout } = kind;
  const disks = kind.disks ? await mountDisks(folder, kind) : new Map<string, Disk>();
  const home: Home = { folder, bus, apiPort: 0, verifyPort: 0, apiUrl: '/', verifyUrl: '/' };
  masterKeyFile(home);
  const servers = await prepareServers({ folder, ports });
  // The servers of a cluster tell clients their own addresses, so there is no proxy in between.
  const members = cluster ? await startRedisCluster(join(folder, 'logs'), NODE_TIMEOUT_MS) : [];
  const brokersPort = bus === 'kafka' ? await openProxyTo('all', 'kafka', ports.kafka) : 0;
  const programs = servers.programs.filter(({ name }) => !(cluster && name === 'redis'));
  await Promise.all([
    ...programs.map((program) => supervisor.add(program)),
    bus === 'kafka' && startKafka(options, brokersPort),
  ]);
  await servers.createDatabase('keytally');

  const addresses: Addresses = {
    DATABASE_URL: servers.postgresUrl('keytally'),
    REDIS_URL: cluster ? `redis+cluster://${members.map((one) => one.address).join()}` : servers.redisUrl,
    CLICKHOUSE_URL: `${servers.clickhouseUrl}/keytally`,
    ...(bus === 'kafka' && { KAFKA_BROKERS: `127.0.0.1:${brokersPort}` }),
  };
  const env = programEnvironment(home, addresses);
  const never = new AbortController().signal;
  await runOnce(join(from, 'apps/api/commands/migrate.ts'), [], { ...env, ...servers.rolePasswords }, never);
  const token = await makeToken(env, from);
  return { servers, addresses, env, token, disks, members };
}

/** Makes a token for the team of the stage, by the command of a checkout. */
export async function makeToken(env: NodeJS.ProcessEnv, from: string = checkout): Promise<string> {
  const command = join(from, 'apps/api/commands/token.ts');
  return (await runOnce(command, ['--team', 'faults'], env, new AbortController().signal)).trim();
}

async function mountDisks(folder: string, { bus }: StageKind): Promise<Map<string, Disk>> {
  const disks = new Map<string, Disk>();
  for (const [server, megabytes] of Object.entries(DISK_MB)) {
    if (server !== 'kafka' || bus === 'kafka') disks.set(server, await mountDisk(join(folder, server), megabytes));
  }
  return disks;
}

async function startKafka({ folder, ports, supervisor }: Options, brokersPort: number): Promise<void> {
  // Clients connect to the address that Kafka tells them, so that one leads through the proxy too.
  const settings = { 'advertised.listeners': `PLAINTEXT://127.0.0.1:${brokersPort}` };
  await supervisor.add(await prepareKafka({ folder: join(folder, 'kafka'), ports, settings }));
}
