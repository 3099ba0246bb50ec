import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { permissions, type Permission } from '../../shared/contract/caller.ts';
import { newId } from '../../shared/values/ids.ts';
import { hashKeyText, makeKeyText, randomShard } from '../../shared/values/key-text.ts';
import { migrateClickHouse } from '../../shared/stores/migrate.ts';
import { connectPostgres, type Sql } from '../../shared/stores/postgres.ts';
import { checkAnswer, learnContract } from './contract.ts';

type Program = 'api' | 'verify' | 'consumer' | 'relay';
export type Answer = { status: number; headers: Headers; body: any; text: string };
// Each program as in production: with the rights of its own role, or without a way to Postgres at all.
const databaseUrls: Partial<Record<Program, string>> = {
  api: 'TEST_API_POSTGRES_URL',
  consumer: 'TEST_CONSUMER_POSTGRES_URL',
};
type RequestOptions = { token?: string | null; body?: unknown; headers?: Record<string, string>; raw?: string };

/** A program of ours, running as a process of its own. */
export type Started = { url: string; process: ChildProcess; stop(signal?: NodeJS.Signals): Promise<void> };

/** A test file's own world: databases of its own on the run's real servers, and our programs on them. */
export type World = {
  sql: Sql;
  env: Record<string, string>;
  api: Started;
  verify: Started | undefined;
  consumer: Started | undefined;
  /** A team with an access token of all permissions, which requests use unless told otherwise. */
  team: { id: string; token: string };
  /** Calls the api (or another base URL), as JSON with the team's token; `token: null` sends none. */
  call(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer>;
  newTeam(): Promise<{ id: string; token: string }>;
  /** A workspace that is stored and nothing more: for what has to be elsewhere. */
  newWorkspace(teamId: string): Promise<string>;
  newToken(teamId: string, granted: readonly Permission[], workspaceIds?: string[]): Promise<string>;
  start(program: Program, env?: Record<string, string>): Promise<Started>;
  stop(): Promise<void>;
};

/** Makes the world of a test file. The servers come from the test run: `make test FILE=…`. */
export async function makeWorld(programs: Program[] = ['api'], settings: Record<string, string> = {}): Promise<World> {
  const slot = requireEnv('TEST_SLOT');
  const name = `test_${slot}`;
  const admin = postgres(requireEnv('TEST_POSTGRES_URL'), { max: 1, onnotice: () => {} });
  await admin`drop database if exists ${admin(name)} with (force)`;
  await admin`create database ${admin(name)} template keytally_template`;
  await admin.end();

  const env = {
    DATABASE_URL: withPath(requireEnv('TEST_POSTGRES_URL'), name),
    REDIS_URL: withPath(requireEnv('TEST_REDIS_URL'), String(Number(slot) % 256)),
    CLICKHOUSE_URL: withPath(requireEnv('TEST_CLICKHOUSE_URL'), name),
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    LOG_LEVEL: 'info',
    PORT: '0',
    // Tests fail to authenticate more often than a client may; that of the limit sets its own.
    FAILED_AUTH_PER_MINUTE: '1000000000',
    CALLS_PER_SECOND: '1000000',
    // Topics of its own, on the run's broker.
    ...(process.env.TEST_KAFKA_BROKERS && { KAFKA_BROKERS: process.env.TEST_KAFKA_BROKERS, KAFKA_TOPIC_PREFIX: name }),
    ...settings,
  };
  await migrateClickHouse(env.CLICKHOUSE_URL);
  const sql = connectPostgres(env.DATABASE_URL, { max: 4 });
  const started: Started[] = [];

  async function newToken(teamId: string, granted: readonly Permission[], workspaceIds?: string[]): Promise<string> {
    const shard = randomShard();
    const text = makeKeyText('kt', shard);
    const id = newId('tok');
    await sql`
      insert into access_tokens (id, team_id, name, hash, masked_token, shard, permissions, workspace_ids)
      values (${id}, ${teamId}, 'test', ${hashKeyText(text)}, '', ${shard}, ${[...granted]}, ${workspaceIds ?? null})`;
    // Old enough for the sweeper to bring it into force at once.
    await sql`insert into changes (kind, entity_id, shard, created_at) values ('token', ${id}, ${shard}, now() - interval '1 hour')`;
    return text;
  }

  async function newTeam(): Promise<{ id: string; token: string }> {
    const id = newId('team');
    await sql`insert into teams (id, name) values (${id}, ${id})`;
    return { id, token: await newToken(id, permissions) };
  }

  async function newWorkspace(teamId: string): Promise<string> {
    const id = newId('ws');
    await sql`insert into workspaces (id, team_id, name) values (${id}, ${teamId}, 'elsewhere')`;
    return id;
  }

  async function start(program: Program, more: Record<string, string> = {}): Promise<Started> {
    const { DATABASE_URL, ...settings } = { ...env, ...more };
    const own = databaseUrls[program];
    const database = own && { DATABASE_URL: withLogin(DATABASE_URL, requireEnv(own)) };
    const one = await startProgram(program, { ...settings, ...database });
    started.push(one);
    return one;
  }

  const team = await newTeam();
  const api = await start('api');
  const verify = programs.includes('verify') ? await start('verify') : undefined;
  const consumer = programs.includes('consumer') ? await start('consumer') : undefined;

  return {
    sql,
    env,
    api,
    verify,
    consumer,
    team,
    newTeam,
    newWorkspace,
    newToken,
    start,
    call: (method, path, body, options = {}) =>
      request(path.startsWith('http') ? path : api.url + path, method, { token: team.token, body, ...options }),
    async stop() {
      await Promise.all(started.map((one) => one.stop('SIGKILL')));
      await sql.end();
    },
  };
}

/** One HTTP request, whose answer must be as it is documented; `raw` sends a body as it stands. */
export async function request(url: string, method: string, options: RequestOptions): Promise<Answer> {
  const { token, body, raw } = options;
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(url, {
    method: method.toUpperCase(),
    headers: {
      ...(token && { Authorization: `Bearer ${token}` }),
      ...(payload !== undefined && { 'Content-Type': 'application/json' }),
      ...options.headers,
    },
    ...(payload !== undefined && { body: payload }),
  });
  const text = await response.text();
  const { status, headers } = response;
  const { origin, pathname } = new URL(url);
  checkAnswer(origin, method, pathname, { status, headers, text });
  const isJson = headers.get('content-type')?.includes('json');
  return { status, headers, text, body: isJson && text ? JSON.parse(text) : undefined };
}

/**
 * Waits until `look` gives something true, and gives it. The default limit only keeps a test from hanging: it leaves room
 * for a busy machine. A test that guarantees a time measures it or gives its own limit.
 */
export async function eventually<T>(what: string, look: () => Promise<T>, withinMs = 60_000): Promise<NonNullable<T>> {
  const until = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > until) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(20);
  }
}

/** A way to a server that can be cut, and mended again. */
export type Wire = { url: string; cut(): Promise<void>; mend(): Promise<void> };

/** Puts a wire before a server that a URL names, which can be cut: the server is away then for who uses this URL. */
export async function wireTo(url: string): Promise<Wire> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const server = createServer((inner) => {
    const outer = connect(Number(port), hostname);
    inner.pipe(outer).pipe(inner);
    for (const socket of [inner, outer]) sockets.add(socket.on('error', () => socket.destroy()));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const wired = new URL(url);
  wired.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: wired.href,
    async cut() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    async mend() {
      await once(server.listen(Number(wired.port), '127.0.0.1'), 'listening');
    },
  };
}

/** Hear all that programs write from here on. */
export const outputListeners = new Set<(text: string) => void>();

async function startProgram(program: Program, env: Record<string, string>): Promise<Started> {
  const path = new URL(`../../apps/${program}/main.ts`, import.meta.url).pathname;
  const port = await new Promise<{ url: string; process: ChildProcess }>((resolve, reject) => {
    const child = spawn(process.execPath, [path], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      process.stderr.write(text);
      for (const listener of outputListeners) listener(text);
    });
    child.once('exit', (code) => reject(new Error(`${program} ended with ${code}`)));
    let seen = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      for (const listener of outputListeners) listener(text);
      for (const line of text.split('\n')) if (/"level":(50|60)/.test(line)) process.stderr.write(`${line}\n`);
      if (seen === 'listening') return;
      seen += text;
      const listening = /"port":(\d+)/.exec(seen)?.[1];
      if (!listening) return;
      seen = 'listening';
      resolve({ url: `http://127.0.0.1:${listening}`, process: child });
    });
  });
  await eventually(`${program} is ready`, async () => (await fetch(`${port.url}/readyz`)).ok).catch((error) => {
    // Else it would keep the test file from ending.
    port.process.kill('SIGKILL');
    throw error;
  });
  await learnContract(port.url);
  return {
    ...port,
    async stop(signal = 'SIGTERM') {
      if (port.process.exitCode !== null || port.process.signalCode !== null) return;
      port.process.kill(signal);
      await once(port.process, 'exit');
    },
  };
}

function requireEnv(name: string): string {
  const value = process.env[name];
  if (!value)
    throw new Error(`${name} is not set: tests run on real servers, start them with make test FILE=<part of its path>`);
  return value;
}

function withLogin(url: string, login: string): string {
  const result = new URL(url);
  ({ username: result.username, password: result.password } = new URL(login));
  return result.href;
}

function withPath(url: string, path: string): string {
  const result = new URL(url);
  result.pathname = `/${path}`;
  return result.href;
}
