import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { permissions, type Caller } from '../../shared/contract/caller.ts';
import { newId } from '../../shared/values/ids.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import { makeOwnRedis } from '../helpers/own-redis.ts';
import { makeDatabases, withLogin } from '../helpers/world.ts';
import { makeBooksServer } from './books-server.ts';
import { makeKafkaServer } from './kafka-server.ts';
import { makePostgresServer } from './postgres-server.ts';
import { startApi, type ApiRequest, type Servers } from './programs.ts';
import { makeRedisServer } from './redis-server.ts';
import { drawAnew, makeRandom } from './random.ts';
import { makeSimulation, type Simulation } from './simulation.ts';
import { current } from './current.ts';
import type { Home } from './clients.ts';
import { makeWork } from './work.ts';
import { beginOtherWork, type Begun } from './work/all.ts';

/** What each seed begins with: a team with a workspace, records with a key, and shards that are open. */
export type Beginning = Home & { begun: Begun };
export type Stage = {
  servers: Servers;
  beginning: Beginning;
  /** The world of a seed, as it was at the beginning. */
  begin(seed: number): Promise<Simulation>;
  close(): Promise<void>;
};

// A disk in memory: the books make and remove hundreds of files in each seed.
const MEMORY = '/dev/shm';
const START_MS = Date.UTC(2028, 1, 28, 22);
// When seeds begin: before a leap day, a month's end, changes of the clocks in New York, Berlin and on Lord Howe, and whenever.
const SEEDS_START_MS = [
  START_MS,
  Date.UTC(2028, 1, 29, 22, 59),
  Date.UTC(2028, 2, 8, 12),
  Date.UTC(2028, 2, 12, 6, 58),
  Date.UTC(2028, 2, 26, 0, 58),
  Date.UTC(2028, 2, 31, 21, 58),
  Date.UTC(2028, 3, 1, 14, 58),
];

/** Makes the servers of simulations, and their beginning. Seeds run on them one after the other. */
export async function makeStage(slot: string): Promise<Stage> {
  const env = await makeDatabases({ LOG_LEVEL: 'warn', VERIFY_DEADLINE_MS: '250', REQUEST_DEADLINE_MS: '10000' }, slot);
  // A command or a statement over a Unix socket costs half of one over TCP.
  const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'keytally-simulator-'));
  const socket = join(folder, 'redis');
  const own = await makeOwnRedis('simulator', { appendonly: 'no', unixsocket: socket });
  const url = (login: string | undefined) => withLogin(env.DATABASE_URL!, login!);
  const path = await postgresSocket(env.DATABASE_URL!);
  const admin = connectPostgres(env.DATABASE_URL!, { max: 1, path });
  const postgres = await makePostgresServer(admin);
  const redis = await makeRedisServer(socket);
  const books = makeBooksServer(join(folder, 'books'));
  const kafka = makeKafkaServer();
  const apiUrl = url(process.env.TEST_API_POSTGRES_URL);
  const pools = {
    api: connectPostgres(apiUrl, { everyTeam: true, max: 3, path }),
    team: connectPostgres(apiUrl, { max: 3, quotas: '{}', path }),
    consumer: connectPostgres(url(process.env.TEST_CONSUMER_POSTGRES_URL), { max: 3, path }),
    webhooks: connectPostgres(url(process.env.TEST_WEBHOOKS_POSTGRES_URL), { max: 3, path }),
  };
  const servers: Servers = { redis, postgres, books, kafka, pools, env };
  const beginning = await makeBeginning(servers);

  async function begin(seed: number): Promise<Simulation> {
    const simulation = makeSimulation(makeRandom(seed), SEEDS_START_MS[seed % SEEDS_START_MS.length]!);
    current.random = simulation.random;
    await postgres.begin(simulation);
    // A stack that has run before knows until when it told what the clock brings.
    await admin`
      insert into job_watermarks (job, at) values ('webhook_moments', ${simulation.nowMs()})
      on conflict (job) do update set at = excluded.at`;
    await redis.begin(simulation);
    books.begin(simulation);
    kafka.begin(simulation);
    // Emptying the servers drew as much as there was. An id never goes back by less than 10 s: the first one begins at the moment
    // of a seed only where those before it are from another day; and it draws more than those after it.
    current.nowMs = () => simulation.nowMs() + DAY_MS;
    newId('evt');
    current.nowMs = simulation.nowMs;
    newId('evt');
    simulation.random.reseed(seed);
    drawAnew(() => newId('evt'));
    return simulation;
  }

  /** A team with a token, and a workspace, made by an api that opens the shards first. */
  async function makeBeginning(of: Servers): Promise<Beginning> {
    // Ids of messages follow from that of the team.
    current.nowMs = () => START_MS - DAY_MS;
    current.random.reseed(0);
    drawAnew(() => newId('evt'));
    const [teamId, tokenId] = [newId('team'), newId('tok')];
    await admin`insert into teams (id, name) values (${teamId}, 'simulated')`;
    await admin`
      insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions)
      values (${tokenId}, ${teamId}, 'simulated', ${tokenId}, '', 0, ${[...permissions]})`;
    const caller: Caller = { tokenId, teamId, permissions: new Set(permissions), workspaceIds: undefined };
    await postgres.keepBeginning();
    await own.admin.flushall();
    await redis.keepBeginning();
    const simulation = await begin(0);
    const api = startApi(simulation, of);
    await live(simulation, of, 5_000);
    const ask = async (request: ApiRequest) => {
      const made = api.handle(caller, request);
      await live(simulation, of, 2_000);
      return { body: (await made).body };
    };
    const { body } = await ask({ operationId: 'createWorkspace', body: { name: 'w' } });
    const home = { caller, workspaceId: body.workspace.id };
    const work = makeWork(simulation, home, { api: () => api, verify: () => undefined });
    for (const name of ['createMeter', 'createKey', 'createMeter', 'createKey'] as const) {
      void work.actions[name]();
      await live(simulation, of, 2_000);
    }
    const begun = await beginOtherWork({ simulation, ask }, home.workspaceId);
    await live(simulation, of, 30_000);
    await simulation.kill(api.process);
    // Seeds give their requests the same keys.
    await admin`delete from idempotency_keys`;
    await redis.keepBeginning();
    await postgres.keepBeginning();
    return { ...home, meters: work.model.meters, begun };
  }

  return {
    servers,
    beginning,
    begin,
    async close() {
      redis.close();
      await Promise.all([admin.end(), ...Object.values(pools).map((pool) => pool.end())]);
      await own.remove();
      books.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function postgresSocket(url: string): Promise<string> {
  const sql = connectPostgres(url, { max: 1 });
  const [{ path }] = await sql<[{ path: string }]>`
    select current_setting('unix_socket_directories') || '/.s.PGSQL.' || current_setting('port') as path`;
  await sql.end();
  return path;
}

/** Lets everything live without a fault for some time. */
export async function live(simulation: Simulation, { redis, postgres }: Servers, ms: number): Promise<void> {
  const until = simulation.passedMs() + ms;
  while (simulation.passedMs() < until) {
    while (await simulation.runOne());
    await simulation.advance(200);
    await postgres.tick();
    await redis.tick();
  }
  while (await simulation.runOne());
}
