import { setTimeout as sleep } from 'node:timers/promises';
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
const ANSWER_WITHIN_MS = 30_000;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Imports some keys, and repeats the request while keytally is unavailable or asks to wait. No Idempotency-Key: what the first
 * attempt imported is told by the second, and nothing of the answers has to be kept. Once `signal` is aborted it makes no further
 * attempt, and throws the signal's reason.
 */
export async function sendKeys(target: Target, keys: Item[], signal: AbortSignal): Promise<Result[]> {
  const until = performance.now() + TRY_FOR_MS;
  for (let attempt = 0; ; attempt++) {
    const answer = await post(target, keys);
    if ('results' in answer) return answer.results;
    const pauseMs = Math.max(Math.min(100 * 2 ** attempt, LONGEST_PAUSE_MS), answer.retryAfterMs);
    if (!answer.mayPass || performance.now() + pauseMs > until) throw new Error(answer.message);
    await sleep(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

type Failure = { message: string; mayPass: boolean; retryAfterMs: number };

async function post({ url, token }: Target, keys: Item[]): Promise<{ results: Result[] } | Failure> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${url}/api/v1/api-key/import`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ keys }),
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    text = await response.text();
  } catch {
    return { message: `keytally cannot be reached at ${url}`, mayPass: true, retryAfterMs: 0 };
  }
  const { status, headers } = response;
  const body = parse(text) as { results?: Result[]; error?: { code: number; message: string } } | undefined;
  if (response.ok && body?.results) return { results: body.results };
  const message = body?.error
    ? `${body.error.code}: ${body.error.message}`
    : `HTTP ${status} from ${url}, not from keytally`;
  const mayPass = status === 408 || status === 429 || (status > 500 && status < 600);
  return { message, mayPass, retryAfterMs: 1_000 * Number(headers.get('retry-after') ?? 0) || 0 };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
