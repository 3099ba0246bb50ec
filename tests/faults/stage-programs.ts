import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../../apps/stack/process/home.ts';
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
  /** More for every program's environment. */
  env: NodeJS.ProcessEnv;
  /** Opens a proxy between two processes; gives its port. */
  openProxyTo(from: string, to: string, port: number): Promise<number>;
};
const all = ['api', 'verify', 'consumer', 'relay', 'webhooks'] as const;
/** Our programs. */
export type Which = (typeof all)[number];

/** How many programs a stage has at most. */
export const PROGRAMS = 10;

// Less than comes in half a minute, more than in the time for which Postgres is frozen.
const OUTBOX_MAX_ENTRIES = 3_500;
// More than comes while consumers of one version are stopped, schemas migrated, and those of another started.
const OUTBOX_MAX_ENTRIES_OF_UPGRADES = 200_000;
const REQUEST_DEADLINE_MS = 6_500;
const WRONG_CLOCK = ['--import', join(import.meta.dirname, 'breaking/wrong-clock.ts')];

/** Two of each program, each behind proxies of its own and with a clock that can be set. */
export async function preparePrograms(options: Options): Promise<Program[]> {
  const { kind, ports, openProxyTo } = options;
  const programs: Program[] = [];
  const kinds = all.filter((which) => isOn(which, kind));
  for (const [i, which] of kinds.flatMap((one) => [one, one]).entries()) {
    const name = `${which}-${(i % 2) + 1}`;
    const port = ports[i]!;
    const program = ourProgram(which, name, port, await environmentOf(which, name, options));
    programs.push({ ...program, args: [...WRONG_CLOCK, ...program.args] });
    if (which === 'api' || which === 'verify') await openProxyTo('client', name, port);
  }
  return programs;
}

function isOn(which: Which, { bus, from }: StageKind): boolean {
  if (which === 'relay') return bus === 'kafka';
  return which !== 'webhooks' || from !== undefined;
}

/** The password of a user of Redis, on a stage that has them. */
export function redisPassword(user: string): string {
  return `password-of-${user}`;
}

/** A program as the version of another checkout has it, on the Node of that one. Undefined if it has no such program. */
export function ofVersion(program: Program, root: string): Program | undefined {
  const args = program.args.map((arg) => arg.replace(`${checkout}/apps/`, `${root}/apps/`));
  if (!existsSync(args.at(-1)!)) return undefined;
  const node = join(root, 'node_modules/.bin/node');
  return { ...program, args, command: existsSync(node) ? node : program.command };
}

async function environmentOf(which: Which, name: string, options: Options): Promise<NodeJS.ProcessEnv> {
  const { folder, kind, started, serverPorts, openProxyTo } = options;
  const { servers, addresses } = started;
  const through = async (url: string, server: keyof ServerPorts) =>
    url.replace(
      `127.0.0.1:${serverPorts[server]}`,
      `127.0.0.1:${await openProxyTo(name, server, serverPorts[server])}`,
    );
  const { DATABASE_URL: _, ...others } = started.env;
  const login = `keytally_${which}:${redisPassword(`keytally_${which}`)}@`;
  const redisUrl = kind.from ? addresses.REDIS_URL.replace(/(?<=:\/\/)(.*@)?/, login) : addresses.REDIS_URL;
  return {
    ...others,
    ...options.env,
    ...((which === 'api' || which === 'consumer' || which === 'webhooks') && {
      DATABASE_URL: await through(servers.postgresUrl('keytally', `keytally_${which}`), 'postgres'),
    }),
    REDIS_URL: kind.cluster ? addresses.REDIS_URL : await through(redisUrl, 'redis'),
    CLICKHOUSE_URL: await through(addresses.CLICKHOUSE_URL, 'clickhouse'),
    CONSUMER_NAME: name,
    KAFKA_TOPIC_PARTITIONS: '4',
    OUTBOX_MAX_ENTRIES: String(kind.from ? OUTBOX_MAX_ENTRIES_OF_UPGRADES : OUTBOX_MAX_ENTRIES),
    REQUEST_DEADLINE_MS: String(kind.requestDeadlineMs ?? REQUEST_DEADLINE_MS),
    LOG_LEVEL: 'info',
    CLOCK_FILE: join(folder, `${name}.clock`),
    ...(kind.minReplicas !== undefined && { REDIS_MIN_REPLICAS: String(kind.minReplicas) }),
  };
}
