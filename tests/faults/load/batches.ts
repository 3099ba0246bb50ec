import { setTimeout as sleep } from 'node:timers/promises';
import type { Reply } from './client.ts';

/** What one verification of a batch was answered, and by which process. */
export type Batched = { at: string; reply: Reply };
type Waiting = { verification: object; resolve(batched: Batched): void };

const GATHERED_MS = 15;
const MOST = 100;

/** Sends verifications of about the same moment as one batch; `send` sends it once. */
export function makeBatches(send: (verifications: object[]) => Promise<Batched>) {
  let waiting: Waiting[] = [];

  async function sendLater(): Promise<void> {
    await sleep(GATHERED_MS);
    const batch = waiting;
    waiting = [];
    const { at, reply } = await send(batch.map(({ verification }) => verification));
    for (const [i, { resolve }] of batch.entries()) resolve({ at, reply: replyOf(reply, i) });
  }

  return function verify(verification: object): Promise<Batched> {
    return new Promise((resolve) => {
      waiting.push({ verification, resolve });
      if (waiting.length === 1) void sendLater();
      if (waiting.length > MOST) throw new Error('more lines of traffic than a batch takes');
    });
  };
}

/** The reply that a verification would have had alone. */
function replyOf(whole: Reply, i: number): Reply {
  if (whole.http !== 200) return whole;
  const body = whole.body.results?.[i];
  if (!body) return { body: {}, error: 'the batch lacks an answer' };
  return { http: body.error ? Math.floor(body.error.code / 100) : 200, body };
}
