import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { StackError } from './errors.ts';

type Where = { api: string; verify: string; token: string };
// oxlint-disable-next-line typescript/no-explicit-any -- the demo reads answers as a shell script would
type Json = any;

export type Client = {
  /** A management call; anything but success ends the demo with what was answered. */
  manage(method: 'GET' | 'POST', path: string, body?: object): Promise<Json>;
  /** Verifies a key; gives the status and how long its answer took. */
  verify(body: object): Promise<{ status: string; ms: number }>;
  /** How many calls got no decision at first. */
  undecided(): number;
};

const GIVE_UP_AFTER_MS = 45_000;

/**
 * A client as an application would write it: what got no answer, or a 503, is sent again with the same
 * Idempotency-Key, so that it counts once whatever happened to the first.
 */
export function makeClient({ api, verify, token }: Where): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  let undecided = 0;

  async function call(method: string, url: string, body: object | undefined): Promise<{ answer: Json; ms: number }> {
    const headers = {
      Authorization: `Bearer ${token}`,
      'Idempotency-Key': randomUUID(),
      'Content-Type': 'application/json',
    };
    const until = performance.now() + GIVE_UP_AFTER_MS;
    for (;;) {
      const started = performance.now();
      const outcome = await send(method, url, headers, body).catch((error: unknown) => ({
        status: 0,
        answer: String(error),
      }));
      if (outcome.status >= 200 && outcome.status < 300)
        return { answer: outcome.answer, ms: performance.now() - started };
      const passing = outcome.status === 0 || outcome.status === 503 || outcome.status === 409;
      if (!passing || performance.now() > until) {
        throw new StackError(`${method} ${url} answered ${outcome.status}: ${JSON.stringify(outcome.answer)}`);
      }
      if (url.startsWith(verify)) undecided++;
      await sleep(100);
    }
  }

  function send(method: string, url: string, headers: Record<string, string>, body: object | undefined) {
    return new Promise<{ status: number; answer: Json }>((resolve, reject) => {
      const sent = request(url, { method, headers, agent, timeout: 5_000 }, (response) => {
        text(response).then(
          (answer) => resolve({ status: response.statusCode ?? 0, answer: JSON.parse(answer) }),
          reject,
        );
      });
      sent.on('error', reject);
      sent.on('timeout', () => sent.destroy(new Error('no answer within 5 s')));
      sent.end(body && JSON.stringify(body));
    });
  }

  return {
    manage: async (method, path, body) => (await call(method, api + path, body)).answer,
    async verify(body) {
      const { answer, ms } = await call('POST', `${verify}/api/v1/api-key/verify`, body);
      return { status: answer.status as string, ms };
    },
    undecided: () => undecided,
  };
}
