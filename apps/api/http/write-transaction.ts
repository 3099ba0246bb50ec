import { abortAfter } from '../../../shared/runtime/clock.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { retry } from '../../../shared/runtime/retry.ts';
import { TextAnswer } from '../../../shared/contract/route.ts';
import { lastKnown, requireOpen } from '../../../shared/stores/fence.ts';
import { asPostgresUnavailable, PostgresError, setTeam, type Transaction } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { lockTokens } from '../resources/access/access.ts';
import { asQuotaExceeded } from '../resources/quotas.ts';
import { storeRecorded, type Recorded, type SayChanged, auditClient, operationName } from '../resources/record.ts';
import type { StoredChange } from '../sync/change.ts';
import { lastChange, newestOf } from '../sync/sweeper.ts';
import { applyChanges, shardsOf } from '../sync/sync.ts';
import { once, type KeptAnswer, type Repeatable } from './idempotency.ts';
import type { AnyCall, ApiRoute, HandleOptions } from './route.ts';

/** An answer as it is sent and, for a writing request with an Idempotency-Key, kept. */
export type Answer = Pick<TextAnswer, 'type' | 'text' | 'name' | 'headers'> & { status: number };

/** How far a writing request has come: from it a 503 says whether the change is stored. */
export type WriteProgress = { stage: 'begun' | 'given up' | 'committing' | 'stored'; cookie?: string };

export type WriteOptions = HandleOptions & {
  progress: WriteProgress;
  /** Present when the request carries an Idempotency-Key. */
  repeatable: Repeatable | undefined;
};

const OPEN_WITHIN_MS = 1_000;
// A Redis that stalls on its disk, or whose replica takes over, is back by then.
const APPLY_FOR_MS = 5_000;
const RUNS = 3;
const [DEADLOCK, SERIALIZATION_FAILURE] = ['40P01', '40001'];

/**
 * Runs a handler that changes something.
 * 1. One transaction holds the change, its rows in `changes`, its audit lines and the kept answer. A crash before the commit
 *    leaves nothing behind. It begins only while the caller's token is in force. One that Postgres ended in favour of another runs
 *    again, handler and all: until the commit a handler writes nothing but what the transaction has.
 * 2. The transaction commits only while all touched shards are open, so that the change can come into force.
 * 3. The changes are applied to Redis, again for some seconds if that fails. After a crash before this step, the sweeper
 *    applies them.
 */
export async function writeInTransaction(route: ApiRoute, call: AnyCall, options: WriteOptions): Promise<Answer> {
  const { teamSql, masterKeys, progress, repeatable, stalePostgres, services } = options;
  stalePostgres.refuse();
  const transact = () =>
    teamSql.begin(async (tx): Promise<KeptAnswer> => {
      await Promise.all([
        setTeam(tx, call.caller.teamId),
        lockTokens(tx, call.caller, { alone: route.revokes === true }),
      ]);
      const work = async () => {
        if (route.grows) options.requireMemory();
        const keepRefusal = repeatable !== undefined && !call.caller.portal;
        const { status, text, recorded } = await attempt(route, call, tx, keepRefusal);
        const client = auditClient(call.clientAddress, call.header('user-agent'));
        const origin = { ...call.caller, operation: operationName(route), requestId: call.requestId, client };
        const changes = await storeRecorded(tx, origin, recorded);
        if (changes.length > 0) await requireInForce(tx, services.redis, changes);
        return { status, text, changeIds: changes.map((change) => change.id) };
      };
      const answer = repeatable ? await once(tx, masterKeys, repeatable, work) : await work();
      if (progress.stage === 'given up') throw new ApiError('deadline');
      progress.stage = 'committing';
      return answer;
    });
  const kept = await repeatEnded(progress, transact).catch((error: unknown) => {
    throw notCommitted(asQuotaExceeded(error), progress);
  });
  progress.stage = 'stored';
  await bringIntoForce(options, kept.changeIds);
  if (kept.status >= 400) {
    const { errorName, ...refusal } = JSON.parse(kept.text) as Pick<ApiError, 'errorName' | 'message' | 'headers'>;
    throw new ApiError(errorName, refusal);
  }
  return { status: kept.status, type: 'application/json', text: kept.text };
}

/** Turns what a handler returned into the answer of its route. */
export function answerOf({ status = 200 }: ApiRoute, result: unknown): Answer {
  if (!(result instanceof TextAnswer)) return { status, type: 'application/json', text: JSON.stringify(result) };
  const { type, text, name, headers } = result;
  return { status, type, text, name, headers };
}

/** The error of a request that has run out of time; marks a request that has not begun its commit as given up. */
export function writeTooLate(progress: WriteProgress): ApiError {
  if (progress.stage === 'stored') return new ApiError('stored_not_in_force');
  if (progress.stage === 'committing') return new ApiError('stored_or_not');
  progress.stage = 'given up';
  return new ApiError('deadline', {
    message: 'The request took too long, and nothing was stored; repeat it in a moment.',
  });
}

/** Runs a transaction again that Postgres ended: in a deadlock it ends one of those that wait for each other. */
async function repeatEnded<Result>(progress: WriteProgress, transact: () => Promise<Result>): Promise<Result> {
  for (let run = 1; ; run++) {
    try {
      return await transact();
    } catch (error) {
      if (run === RUNS || !wasEnded(error)) throw error;
      // It may have been ended at its commit.
      if (progress.stage === 'committing') progress.stage = 'begun';
    }
  }
}

function wasEnded(error: unknown): boolean {
  return error instanceof PostgresError && (error.code === DEADLOCK || error.code === SERIALIZATION_FAILURE);
}

/** Runs the handler in a savepoint. With an Idempotency-Key a refusal is an answer too, and is kept like any other; not in the portal, whose visitors would fill the team's quota. */
async function attempt(route: ApiRoute, call: AnyCall, tx: Transaction, keepRefusal: boolean) {
  const recorded: Recorded[] = [];
  const changed: SayChanged = (...changes) => void recorded.push(...changes);
  try {
    const { status, text } = answerOf(route, await tx.savepoint((sql) => route.handle({ ...call, sql, changed })));
    return { status, text: String(text), recorded };
  } catch (error) {
    if (!keepRefusal || !(error instanceof ApiError) || error.status >= 500) throw error;
    // Kept without a request id: a repetition answers with its own.
    const { status, errorName, message, details, headers } = error;
    return { status, text: JSON.stringify({ errorName, message, details, headers }), recorded: [] };
  }
}

/**
 * Refuses unless every touched shard is open, and Postgres has the newest change that they have: else it was restored from a backup, or
 * a standby that lagged. That counts on ahead of what it lost, so where numbers before ours are missing all shards are asked.
 */
async function requireInForce(tx: Transaction, redis: ShardedRedis, changes: StoredChange[]): Promise<void> {
  const changeIds = changes.map((change) => change.id);
  const open = await requireOpen(redis, OPEN_WITHIN_MS, shardsOf(changes));
  const [{ follows, last }] = await tx<[{ follows: boolean; last: number }]>`
    select exists (select from changes where id = ${Math.min(...changeIds) - 1}) as follows, ${lastChange(tx, changeIds)} as last`;
  const newest = Math.max(newestOf(open), follows ? 0 : newestOf(await lastKnown(redis)));
  if (newest > last) throw new ApiError('postgres_stale');
}

function notCommitted(error: unknown, { stage }: WriteProgress): unknown {
  if (wasEnded(error)) {
    const message = 'Other changes were in the way, and nothing was stored; repeat the request in a moment.';
    return new ApiError('postgres_unavailable', { message, cause: error });
  }
  const unavailable = asPostgresUnavailable(error);
  if (!(unavailable instanceof ApiError) || unavailable.errorName !== 'postgres_unavailable') return unavailable;
  if (stage === 'committing') return new ApiError('stored_or_not', { cause: error });
  const message = 'The settings store cannot be reached, and nothing was stored; repeat the request in a moment.';
  return new ApiError('postgres_unavailable', { message, cause: error });
}

async function bringIntoForce({ sql, services, log }: HandleOptions, changeIds: number[]): Promise<void> {
  if (changeIds.length === 0) return;
  try {
    const waiting = await sql<StoredChange[]>`
      select id, kind, entity_id, shard from changes where id = any(${changeIds}) and applied_at is null`;
    const held = await retry(
      services.clock,
      abortAfter(services.clock, APPLY_FOR_MS),
      log,
      'bringing a change into force',
      () => applyChanges(sql, services.redis, waiting),
    );
    if (held.length > 0)
      throw new ApiError('redis_unavailable', { cause: new Error('a balance is not known in Redis') });
  } catch (error) {
    throw new ApiError('stored_not_in_force', { cause: error });
  }
  await sql`update changes set applied_at = now() where id = any(${changeIds})`.catch((error: unknown) => {
    log.warn({ error }, 'applied changes could not be marked; the sweeper applies them once more');
  });
}
