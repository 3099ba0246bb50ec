import { composeApi } from '../../apps/api/compose.ts';
import { describeRequest } from '../../apps/api/http/idempotency.ts';
import {
  answerOf,
  writeInTransaction,
  writeTooLate,
  type WriteProgress,
} from '../../apps/api/http/write-transaction.ts';
import { routes, signedRoutes } from '../../apps/api/routes/index.ts';
import { composeConsumer } from '../../apps/consumer/compose.ts';
import { startConsuming } from '../../apps/consumer/consume.ts';
import { makeKafkaReader } from '../../apps/consumer/kafka-reader.ts';
import { startRelay } from '../../apps/relay/relay.ts';
import { makeOutboxReader } from '../../shared/events/outbox-reader.ts';
import { startPerNode } from '../../shared/events/start-per-node.ts';
import { schedules } from '../../apps/consumer/jobs/schedules.ts';
import { composeVerify } from '../../apps/verify/compose.ts';
import type { Caller } from '../../shared/contract/caller.ts';
import { readConfig } from '../../shared/runtime/config.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { programs } from '../../shared/runtime/programs.ts';
import { noTelemetry } from '../../shared/runtime/telemetry.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import { makeVerifyBatch } from '../../shared/verification/batch.ts';
import { asBooksUnavailable } from '../../shared/stores/clickhouse.ts';
import { asPostgresUnavailable, asTeam, type Sql } from '../../shared/stores/postgres.ts';
import type { BooksServer } from './books-server.ts';
import type { KafkaServer } from './kafka-server.ts';
import type { PostgresServer } from './postgres-server.ts';
import type { RedisServer } from './redis-server.ts';
import type { Process, Simulation } from './simulation.ts';

export type Servers = {
  redis: RedisServer;
  postgres: PostgresServer;
  books: BooksServer;
  kafka: KafkaServer;
  pools: { api: Sql; team: Sql; consumer: Sql; webhooks: Sql };
  env: Record<string, string>;
};

// One for all of a kind: counters say nothing here.
export const metrics = makeMetrics('simulator');
const telemetry = noTelemetry;

// oxlint-disable-next-line no-explicit-any -- an answer, of which its reader knows the form
export type Json = any;

/** What came of a request; undefined where no answer came, or one that leaves it open whether it was done. */
export type Asked = { body?: Json; error?: unknown } | undefined;

/** What a client asks of the api. */
export type ApiRequest = {
  operationId: string;
  params?: object;
  query?: object;
  body?: object;
  idempotencyKey?: string;
};

export type SimulatedApi = ReturnType<typeof startApi>;
export type SimulatedVerify = ReturnType<typeof startVerify>;
export type SimulatedConsumer = ReturnType<typeof startConsumer>;

/** An api: all that the program does, but for its port. */
export function startApi(simulation: Simulation, servers: Servers) {
  const process = simulation.startProcess('api');
  const { clock } = process;
  const log = logOf(simulation, process);
  const config = readConfig(programs.api, servers.env);
  const redis = servers.redis.connect(process, log);
  const books = servers.books.connect(process);
  const stores = {
    sql: servers.postgres.connect(process, servers.pools.api),
    teamSql: servers.postgres.connect(process, servers.pools.team),
    redis,
    books,
    booksForRequests: books,
    booksForExports: books,
  };
  const random = simulation.random.next;
  const { handling } = composeApi(stores, config, { metrics, telemetry, log, clock, random });

  async function handle(caller: Caller, request: ApiRequest): Promise<{ status: number; body: Json }> {
    const route = [...routes, ...signedRoutes].find((one) => one.operationId === request.operationId)!;
    const progress: WriteProgress = { stage: 'begun' };
    const until = clock.monotonic() + config.REQUEST_DEADLINE_MS;
    const call = {
      ...handling.services,
      leftMs: () => until - clock.monotonic(),
      sql: asTeam(handling.teamSql, caller.teamId),
      changed: () => {},
      setCookie: () => {},
      caller,
      params: request.params ?? {},
      query: request.query ?? {},
      body: request.body ?? {},
      requestId: '00000000-0000-4000-8000-000000000000',
      clientAddress: '192.0.2.1',
      header: () => undefined,
      accepts: () => false as const,
    };
    const { idempotencyKey, body } = request;
    const repeatable = idempotencyKey
      ? describeRequest(caller, 'secret', idempotencyKey, { method: route.method, path: route.path, body })
      : undefined;
    const work = async () =>
      route.writes
        ? writeInTransaction(route, call, { ...handling, progress, repeatable })
        : answerOf(route, await route.handle(call).catch(unavailable));
    const answer = await withTimeout(clock, config.REQUEST_DEADLINE_MS, work(), () => writeTooLate(progress));
    return { status: answer.status, body: JSON.parse(String(answer.text)) };
  }

  const { verify, verifyBatch } = handling.services;
  return { process, handle, verify, verifyBatch };
}

/** A verify app, without its port. */
export function startVerify(simulation: Simulation, servers: Servers, name: string) {
  const process = simulation.startProcess(name);
  const log = logOf(simulation, process);
  const config = readConfig(programs.verify, servers.env);
  const redis = servers.redis.connect(process, log);
  const { verifier, holds } = composeVerify(redis, config, { metrics, telemetry, log, random: simulation.random.next });
  const { verify } = verifier;
  const verifyBatch = makeVerifyBatch({ verify, countCall: () => {}, logFailure: () => {}, clock: process.clock });
  return { process, verify, verifyBatch, holds };
}

/** What carries events to the consumers: the outbox alone, or Kafka behind it. */
export type Bus = 'redis' | 'kafka';

/** A consumer; its jobs run when they are told to. */
export function startConsumer(simulation: Simulation, servers: Servers, name: string, bus: Bus) {
  const process = simulation.startProcess(name);
  const { ask } = process;
  let hasUnnoted = false;
  process.ask = (request) => {
    const execute = () => {
      if (request.label.includes('insert into usage_events')) hasUnnoted = bus === 'redis';
      if (request.label.includes('acknowledge')) hasUnnoted = false;
      return request.execute();
    };
    return ask({ ...request, execute });
  };
  const log = logOf(simulation, process);
  const config = { ...readConfig(programs.consumer, servers.env), CONSUMER_NAME: name, BUS: bus };
  const stores = {
    sql: servers.postgres.connect(process, servers.pools.consumer),
    redis: servers.redis.connect(process, log),
    books: servers.books.connect(process),
  };
  const { clock } = process;
  const kafka = bus === 'kafka' ? servers.kafka.connect(process) : undefined;
  const { delivering } = composeConsumer({ ...stores, kafka, metrics, telemetry, log, clock }, config);
  if (kafka) startConsuming({ ...delivering, source: makeKafkaReader({ kafka, metrics, log, clock }) });
  const jobs = schedules(stores, metrics, log);
  /** Whether it has events in its hands that the books have, and that nobody else may note: Kafka gives its own again. */
  return { process, jobs, hasUnnoted: () => hasUnnoted };
}

function unavailable(error: unknown): never {
  throw asBooksUnavailable(asPostgresUnavailable(error));
}

/** A relay, which carries events from the outbox to Kafka. */
export function startRelaying(simulation: Simulation, servers: Servers) {
  const process = simulation.startProcess('relay');
  const log = logOf(simulation, process);
  const { clock } = process;
  const kafka = servers.kafka.connect(process);
  startPerNode(servers.redis.connect(process, log), log, (node, shards) => {
    const source = makeOutboxReader({ node, shards, name: 'relay', metrics, log });
    return startRelay({ source, kafka, metrics, log, clock });
  });
  return { process };
}

/** What a process logs is in the trace. */
export function logOf(simulation: Simulation, { name }: Process) {
  const write = (text: string) => {
    const { level, msg, error } = JSON.parse(text) as { level: number; msg: string; error?: { message?: string } };
    if (level >= 40) simulation.say(`${name} logs: ${msg}${error?.message ? ` (${error.message})` : ''}`);
  };
  return makeLogger(name, 'warn', { write });
}
