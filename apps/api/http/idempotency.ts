import { hash } from 'node:crypto';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import type { Transaction } from '../../../shared/stores/postgres.ts';
import { makeSealer, type MasterKeys } from '../../../shared/values/seal.ts';

/** A kept answer: its status, its JSON text, and the ids of the changes that it reports as in force. */
export type KeptAnswer = { status: number; text: string; changeIds: number[] };

/** A request that carries an Idempotency-Key; `secret` is what only its caller knows: the access token, or the session, and that key. */
export type Repeatable = {
  tokenId: string;
  teamId: string;
  keyHash: string;
  requestHash: string;
  secret: string;
};

const WAIT_FOR_FIRST = '5s';

/** Describes a request that carries an Idempotency-Key. */
export function describeRequest(
  caller: Caller,
  callerSecret: string,
  idempotencyKey: string,
  { method, path, body = null }: { method: string; path: string; body: unknown },
): Repeatable {
  return {
    tokenId: caller.tokenId,
    teamId: caller.teamId,
    keyHash: hash('sha256', idempotencyKey, 'base64url'),
    requestHash: hash('sha256', `${method} ${path} ${JSON.stringify(body, inOrder)}`, 'base64url'),
    secret: `${callerSecret} ${idempotencyKey}`,
  };
}

/**
 * Does the work of a request that carries an Idempotency-Key once, or gives the answer kept under it. While another transaction
 * holds the key, the insert waits: Postgres decides the race. The answer is kept in the transaction of the change: both are stored,
 * or neither.
 */
export async function once(
  tx: Transaction,
  masterKeys: MasterKeys,
  { tokenId, teamId, keyHash, requestHash, secret }: Repeatable,
  work: () => Promise<KeptAnswer>,
): Promise<KeptAnswer> {
  const sealer = makeSealer(masterKeys, 'kept answers', secret);
  const place = `${tokenId} ${keyHash}`;
  // Only this insert waits so briefly: who finds the key taken changes nothing after it.
  const claimed = await tx`
    insert into idempotency_keys (token_id, team_id, key_hash, request_hash)
    select ${tokenId}, ${teamId}, ${keyHash}, ${requestHash} from set_config('lock_timeout', ${WAIT_FOR_FIRST}, true)
    on conflict do nothing returning set_config('lock_timeout', '0', true)`.catch((error: unknown) => {
    throw (error as { code?: string }).code === '55P03' ? busy() : error;
  });
  if (claimed.length > 0) {
    const { status, text, changeIds } = await work();
    await tx`
      update idempotency_keys set status = ${status}, answer = ${sealer.seal(text, place)}, change_ids = ${changeIds}
      where token_id = ${tokenId} and key_hash = ${keyHash}`;
    return { status, text, changeIds };
  }

  const [kept] = await tx<{ requestHash: string; status: number; answer: Buffer; changeIds: number[] }[]>`
    select request_hash, status, answer, change_ids from idempotency_keys where token_id = ${tokenId} and key_hash = ${keyHash}`;
  // The kept answer expired between the two statements: the caller's next attempt counts as the first.
  if (!kept) throw busy();
  if (kept.requestHash !== requestHash) throw new ApiError('idempotency_mismatch');
  return { status: kept.status, text: sealer.unseal(kept.answer, place), changeIds: kept.changeIds };
}

/** For JSON.stringify: objects have their fields in one order, however they were sent. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function busy(): ApiError {
  return new ApiError('idempotency_busy', { headers: { 'Retry-After': '1' } });
}
