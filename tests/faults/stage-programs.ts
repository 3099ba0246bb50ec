import { join } from 'node:path';
import type { Program } from '../../apps/stack/process/program.ts';
import { ourProgram } from '../../apps/stack/servers/programs.ts';
import type { ServerPorts, StageServers } from './stage-servers.ts';
import type { StageKind } from './stage-kind.ts';

type Options = {
  folder: string;
  kind: StageKind;
  started: StageServers;
  serverPorts: ServerPorts;
  /** One for each program. */
  ports: number[];
  /** Opens a proxy between two processes; gives its port. */
  openProxyTo(from: string, to: string, port: number): Promise<number>;
};
type Which = 'api' | 'verify' | 'consumer' | 'relay';

/** How many programs a stage has at most. */
export const PROGRAMS = 8;

// Less than comes in half a minute, more than in the time for which Postgres is frozen.
const OUTBOX_MAX_ENTRIES = 3_500;
const WRONG_CLOCK = ['--import', join(import.meta.dirname, 'breaking/wrong-clock.ts')];

/** Two of each program, each behind proxies of its own and with a clock that can be set. */
export async function preparePrograms(options: Options): Promise<Program[]> {
  const { kind, ports, openProxyTo } = options;
  const kinds: Which[] = ['api', 'verify', 'consumer', ...(kind.bus === 'kafka' ? (['relay'] as const) : [])];
  const programs: Program[] = [];
  for (const [i, which] of kinds.flatMap((one) => [one, one]).entries()) {
    const name = `${which}-${(i % 2) + 1}`;
    const port = ports[i]!;
    const program = ourProgram(which, name, port, await environmentOf(which, name, options));
    programs.push({ ...program, args: [...WRONG_CLOCK, ...program.args] });
    if (which === 'api' || which === 'verify') await openProxyTo('client', name, port);
  }
  return programs;
}

async function environmentOf(which: Which, name: string, options: Options): Promise<NodeJS.ProcessEnv> {
  const { folder, kind, started, serverPorts, openProxyTo } = options;
  const { servers, addresses } = started;
  const through = async (url: string, server: keyof ServerPorts) =>
    url.replace(
      `127.0.0.1:${serverPorts[server]}`,
      `127.0.0.1:${await openProxyTo(name, server, serverPorts[server])}`,
    );
  const role = which === 'api' ? 'keytally_api' : 'keytally_consumer';
  const { DATABASE_URL: _, ...others } = started.env;
  return {
    ...others,
    ...((which === 'api' || which === 'consumer') && {
      DATABASE_URL: await through(servers.postgresUrl('keytally', role), 'postgres'),
    }),
    REDIS_URL: kind.cluster ? addresses.REDIS_URL : await through(addresses.REDIS_URL, 'redis'),
    CLICKHOUSE_URL: await through(addresses.CLICKHOUSE_URL, 'clickhouse'),
    CONSUMER_NAME: name,
    KAFKA_TOPIC_PARTITIONS: '4',
    OUTBOX_MAX_ENTRIES: String(OUTBOX_MAX_ENTRIES),
    REQUEST_DEADLINE_MS: '6500',
    LOG_LEVEL: 'info',
    CLOCK_FILE: join(folder, `${name}.clock`),
    ...(kind.minReplicas !== undefined && { REDIS_MIN_REPLICAS: String(kind.minReplicas) }),
  };
}
