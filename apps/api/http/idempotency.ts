import { createHash } from 'node:crypto';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import type { Transaction } from '../../../shared/stores/postgres.ts';
import { makeSealer, type MasterKeys, type Sealer } from '../../../shared/values/seal.ts';

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
    keyHash: sha256(idempotencyKey),
    requestHash: sha256(`${method} ${path} ${JSON.stringify(body, inOrder)}`),
    secret: `${callerSecret} ${idempotencyKey}`,
  };
}

/**
 * Claims the Idempotency-Key for this transaction, or returns the answer kept under it. While another transaction holds
 * the key, the insert waits: Postgres decides the race.
 */
export async function claimKey(
  tx: Transaction,
  masterKeys: MasterKeys,
  request: Repeatable,
): Promise<KeptAnswer | undefined> {
  const { tokenId, teamId, keyHash, requestHash, secret } = request;
  await tx`select set_config('lock_timeout', ${WAIT_FOR_FIRST}, true)`;
  const claimed = await tx`
    insert into idempotency_keys (token_id, team_id, key_hash, request_hash)
    values (${tokenId}, ${teamId}, ${keyHash}, ${requestHash})
    on conflict do nothing returning true`.catch((error: unknown) => {
    throw (error as { code?: string }).code === '55P03' ? busy() : error;
  });
  await tx`select set_config('lock_timeout', '0', true)`;
  if (claimed.length > 0) return undefined;

  const [kept] = await tx<{ requestHash: string; status: number; answer: Buffer; changeIds: number[] }[]>`
    select request_hash, status, answer, change_ids from idempotency_keys where token_id = ${tokenId} and key_hash = ${keyHash}`;
  // The kept answer expired between the two statements: the caller's next attempt counts as the first.
  if (!kept) throw busy();
  if (kept.requestHash !== requestHash) throw new ApiError('idempotency_mismatch');
  const text = sealerOf(masterKeys, secret).unseal(kept.answer, `${tokenId} ${keyHash}`);
  return { status: kept.status, text, changeIds: kept.changeIds };
}

/** Keeps the answer in the transaction of the change: both are stored, or neither. */
export async function keepAnswer(
  tx: Transaction,
  masterKeys: MasterKeys,
  request: Repeatable,
  answer: KeptAnswer,
): Promise<void> {
  const { tokenId, keyHash, secret } = request;
  const sealed = sealerOf(masterKeys, secret).seal(answer.text, `${tokenId} ${keyHash}`);
  await tx`
    update idempotency_keys set status = ${answer.status}, answer = ${sealed}, change_ids = ${answer.changeIds}
    where token_id = ${tokenId} and key_hash = ${keyHash}`;
}

/** For JSON.stringify: objects have their fields in one order, however they were sent. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function busy(): ApiError {
  return new ApiError('idempotency_busy', { headers: { 'Retry-After': '1' } });
}

function sealerOf(masterKeys: MasterKeys, secret: string): Sealer {
  return makeSealer(masterKeys, 'kept answers', secret);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
