import type Koa from 'koa';
import { bearerToken, requirePermission } from '../../../shared/auth/access-token.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import type { AuthenticateFrom } from '../../../shared/auth/failed-authentications.ts';
import { idempotencyKey } from '../../../shared/http/idempotency-key.ts';
import { requireOpen } from '../../../shared/stores/fence.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { asPostgresUnavailable, asTeam, setTeam, type Sql, type Transaction } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { TextAnswer } from '../../../shared/contract/route.ts';
import type { MasterKeys } from '../../../shared/values/seal.ts';
import { readJson } from '../../../shared/http/read-json.ts';
import { bodyValidator, parameterValidator } from '../../../shared/contract/validate.ts';
import { withTimeout } from '../../../shared/runtime/timeout.ts';
import { originOf, recordAudit, type Audit, type AuditLine } from '../resources/audit.ts';
import type { Change, StoredChange } from '../sync/change.ts';
import { claimKey, keepAnswer, repeatable, type KeptAnswer, type Repeatable } from './idempotency.ts';
import type { StalePostgresWatch } from '../sync/stale-postgres.ts';
import type { ApiRoute, Services } from './route.ts';
import { applyChanges, recordChanges } from '../sync/sync.ts';

/** What a request passes through besides its handler. */
export type Pipeline = {
  services: Omit<Services, 'sql' | 'changed' | 'audit' | 'caller'>;
  /** Sees every team, for what serves all of them. */
  sql: Sql;
  /** Sees the team that it is told of, for what a request asks for. */
  teamSql: Sql;
  authenticate: AuthenticateFrom;
  authenticateForVerify: AuthenticateFrom;
  limitCalls(caller: Caller): Promise<void>;
  clientAddress(peer: string | undefined, forwardedFor: string | undefined): string;
  stalePostgres: StalePostgresWatch;
  masterKeys: MasterKeys;
  log: Logger;
};

const OPEN_WITHIN_MS = 1_000;
const BODY_LIMIT = 64 * 1024;
const NOBODY: Caller = { tokenId: '', teamId: '', permissions: new Set(), workspaceIds: [] };

/** Turns a route into middleware: authenticate, validate, run its handler, in a transaction where it writes, answer. */
export function handle(route: ApiRoute, pipeline: Pipeline): Koa.Middleware {
  const readParams = route.params && parameterValidator(route.params);
  const readQuery = parameterValidator(route.query ?? { type: 'object', additionalProperties: false });
  const readBody = route.body && bodyValidator(route.body);
  const verifies = route.permission === 'key:verify';
  const authenticate = verifies ? pipeline.authenticateForVerify : pipeline.authenticate;

  return async (ctx) => {
    const progress: Progress = { stage: 'begun' };
    const answer = await withTimeout(pipeline.services.deadlineMs, answerTo(ctx, progress), () =>
      tooLate(ctx, progress),
    );
    ctx.status = answer.status;
    ctx.type = answer.type;
    ctx.body = answer.text;
    if (route.alternative) ctx.vary('Accept');
  };

  async function answerTo(ctx: Koa.Context, progress: Progress): Promise<Answer> {
    const clientAddress = pipeline.clientAddress(ctx.req.socket.remoteAddress, ctx.get('x-forwarded-for'));
    const caller = route.permission ? await authenticate(ctx.get('authorization'), clientAddress) : NOBODY;
    if (route.permission) requirePermission(caller, route.permission);
    if (route.permission && !verifies) await pipeline.limitCalls(caller);

    // A body that may be left out is the same as an empty one then.
    const given = readBody && (await readJson(ctx.req, route.bodyLimit ?? BODY_LIMIT));
    const body = readBody?.(given === undefined && route.bodyOptional ? {} : given);
    const call = {
      ...pipeline.services,
      sql: route.permission ? asTeam(pipeline.teamSql, caller.teamId) : pipeline.sql,
      changed: () => {},
      audit: () => {},
      caller,
      params: readParams?.(ctx['params']),
      query: readQuery({ ...ctx.query }),
      body,
      requestId: ctx.state['requestId'] as string,
      clientAddress,
      header: (name: string) => ctx.req.headers[name] as string | undefined,
    };
    if (!route.writes) return read(route, call);

    const key = route.method === 'post' ? idempotencyKey(call.header('idempotency-key')) : undefined;
    if (route.idempotencyKeyRequired && key === undefined) throw new ApiError('idempotency_key_missing');
    // Only a body that its schema let pass: one nested without bounds can't be turned into text.
    const request = `${route.method} ${ctx.path} ${JSON.stringify(body ?? null)}`;
    const token = bearerToken(ctx.get('authorization'));
    const idempotent = key === undefined ? undefined : repeatable(caller, token, key, request);
    return write(route, call, { ...pipeline, progress }, idempotent);
  }
}

/** How far a request that changes something is: a 503 says whether the change is stored. */
type Progress = { stage: 'begun' | 'given up' | 'committing' | 'stored' };

// What has not even arrived by the deadline was never begun; what is not being committed by then never is.
function tooLate(ctx: Koa.Context, progress: Progress): ApiError {
  if (!ctx.req.complete) return new ApiError('request_timeout', { headers: { Connection: 'close' } });
  if (progress.stage === 'stored') return new ApiError('stored_not_in_force');
  if (progress.stage === 'committing') return new ApiError('stored_or_not');
  progress.stage = 'given up';
  return new ApiError('deadline', {
    message: 'The request took too long, and nothing was stored; repeat it in a moment.',
  });
}

type Answer = { status: number; type: string; text: string };
// oxlint-disable-next-line no-explicit-any -- each handler knows its own call
type AnyCall = any;

async function read(route: ApiRoute, call: AnyCall): Promise<Answer> {
  try {
    return textOf(route, await route.handle(call));
  } catch (error) {
    throw asPostgresUnavailable(error);
  }
}

/**
 * Runs a handler that changes something.
 * 1. One transaction holds the change, its outbox rows and the kept answer: dying before its commit leaves nothing.
 * 2. It is only committed while the shards that it touches are open, so that it can come into force.
 * 3. What changed is applied to Redis. Dying before this, the sweeper does it.
 */
async function write(
  route: ApiRoute,
  call: AnyCall,
  pipeline: Pipeline & { progress: Progress },
  idempotent: Repeatable | undefined,
): Promise<Answer> {
  const { teamSql, masterKeys, progress, stalePostgres } = pipeline;
  const { redis } = pipeline.services;
  stalePostgres.refuse();
  const kept = await teamSql
    .begin(async (tx): Promise<KeptAnswer> => {
      const [transaction] = await Promise.all([transactionId(tx), setTeam(tx, call.caller.teamId)]);
      const first = idempotent && (await claimKey(tx, masterKeys, idempotent));
      if (first) return first;
      const { status, text, changes, lines } = await attempt(route, call, tx, idempotent !== undefined);
      const changeIds = await recordChanges(tx, changes);
      await recordAudit(tx, originOf(route, call.caller, call.requestId), lines);
      const answer = { status, text, changeIds };
      if (idempotent) await keepAnswer(tx, masterKeys, idempotent, answer);
      if (changes.length > 0) await requireInForce(tx, redis, changes, changeIds);
      await requireSame(tx, transaction);
      if (progress.stage === 'given up') throw new ApiError('deadline');
      progress.stage = 'committing';
      return answer;
    })
    .catch((error: unknown) => {
      throw notCommitted(error, progress);
    });
  progress.stage = 'stored';
  await bringIntoForce(pipeline, kept.changeIds);
  if (kept.status >= 400) throw refusalOf(kept.text);
  return { status: kept.status, type: 'application/json', text: kept.text };
}

/**
 * Throws unless the shards of changes are open, so that these can come into force, and were given no later change but those
 * that overtook these here: they would have it from a Postgres that was lost since.
 */
async function requireInForce(
  tx: Transaction,
  redis: ShardedRedis,
  changes: Change[],
  changeIds: number[],
): Promise<void> {
  const everywhere = changes.some((change) => change.shard === null);
  const shards = everywhere ? undefined : [...new Set(changes.map((change) => change.shard!))];
  const open = await requireOpen(redis, OPEN_WITHIN_MS, shards);
  const first = Math.min(...changeIds);
  const later = [...new Set([...open.values()].map(({ change }) => change))].filter((change) => change >= first);
  if (later.length === 0) return;
  const made = await tx`select id from changes where id = any(${later}) and id <> all(${changeIds})`;
  if (made.length < later.length) throw new ApiError('postgres_stale');
}

function notCommitted(error: unknown, { stage }: Progress): unknown {
  const away = asPostgresUnavailable(error);
  if (!(away instanceof ApiError) || away.errorName !== 'postgres_unavailable') return away;
  if (stage === 'committing') return new ApiError('stored_or_not', { cause: error });
  const message = 'The settings store can not be reached, and nothing was stored; repeat the request in a moment.';
  return new ApiError('postgres_unavailable', { message, cause: error });
}

async function transactionId(tx: Transaction): Promise<string> {
  const [row] = await tx<[{ id: string }]>`select pg_current_xact_id()::text as id`;
  return row.id;
}

/**
 * Ends the process when the connection is no longer in the transaction that was begun. The driver (postgres 3.4) gives
 * a connection that it lost and made again to others while we wait for Redis: our commit, or a rollback, would be theirs.
 */
async function requireSame(tx: Transaction, transaction: string): Promise<void> {
  if ((await transactionId(tx)) === transaction) return;
  await new Promise(() => {
    process.nextTick(() => {
      throw new Error('a transaction lost its connection');
    });
  });
}

/** Runs the handler in a savepoint. A refusal is an answer too, kept like any other where the request may be repeated. */
async function attempt(route: ApiRoute, call: AnyCall, tx: Transaction, keepRefusal: boolean) {
  const changes: Change[] = [];
  const changed: Services['changed'] = (kind, entityId, shard) =>
    changes.push({ kind, entityId, shard: shard ?? null });
  const lines: AuditLine[] = [];
  const audit: Audit = (resource, id, before, after) => lines.push({ resource, id, before, after });
  try {
    const result = await tx.savepoint((sql) => route.handle({ ...call, sql, changed, audit }));
    return { ...textOf(route, result), changes, lines };
  } catch (error) {
    if (!keepRefusal || !(error instanceof ApiError) || error.status >= 500) throw error;
    return { status: error.status, text: keptRefusal(error), changes: [], lines: [] };
  }
}

// Kept without a request id: whoever repeats the request gets that of the repetition.
function keptRefusal({ errorName, message, details, headers }: ApiError): string {
  return JSON.stringify({ errorName, message, details, headers });
}

function refusalOf(text: string): ApiError {
  const { errorName, ...options } = JSON.parse(text) as Pick<ApiError, 'errorName' | 'message' | 'headers'>;
  return new ApiError(errorName, options);
}

async function bringIntoForce({ sql, services, log }: Pipeline, changeIds: number[]): Promise<void> {
  if (changeIds.length === 0) return;
  try {
    const waiting = await sql<StoredChange[]>`
      select id, kind, entity_id, shard from changes where id = any(${changeIds}) and applied_at is null`;
    await applyChanges(sql, services.redis, waiting);
  } catch (error) {
    throw new ApiError('stored_not_in_force', { cause: error });
  }
  await sql`update changes set applied_at = now() where id = any(${changeIds})`.catch((error: unknown) => {
    log.warn({ error }, 'applied changes could not be marked; the sweeper applies them once more');
  });
}

function textOf(route: ApiRoute, result: unknown): Answer {
  const status = route.status ?? 200;
  if (result instanceof TextAnswer) return { status, type: result.type, text: result.text };
  return { status, type: 'application/json', text: JSON.stringify(result) };
}
