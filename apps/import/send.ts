import { systemClock } from '../../clients/node/clock.ts';
import { KeytallyError } from '../../clients/node/error.ts';
import { JSON_TYPE, send } from '../../clients/node/send.ts';
import { fetchTransport } from '../../clients/node/transport.ts';
import type { Item } from './rows.ts';

/** Where keys are sent. */
export type Target = { url: string; token: string };
/** What became of an item. */
export type Result = {
  result?: 'imported' | 'existing' | 'restored';
  apiKey?: { deleted: boolean };
  error?: { code: number; message: string };
};

const TRY_FOR_MS = 120_000;

/**
 * Imports some keys, and repeats the request while keytally is unavailable or asks to wait. No Idempotency-Key: what the first
 * attempt imported is told by the second, and nothing of the answers has to be kept. Once `signal` is aborted it throws its reason.
 */
export async function sendKeys({ url, token }: Target, keys: Item[], signal: AbortSignal): Promise<Result[]> {
  const sender = { token, transport: fetchTransport(fetch), clock: systemClock, onRetry() {} };
  const body = { keys };
  const request = {
    method: 'POST',
    url: `${url}/api/v1/api-key/import`,
    accept: JSON_TYPE,
    body,
    hasIdempotencyKeys: true,
  };
  try {
    return ((await send(sender, request, { timeoutMs: TRY_FOR_MS, signal })) as { results: Result[] }).results;
  } catch (error) {
    if (!(error instanceof KeytallyError) || error.code === 0) throw error;
    throw new Error(`${error.code}: ${error.message}`, { cause: error });
  }
}
