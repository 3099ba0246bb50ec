import { Redis } from 'ioredis';
import * as assert from 'uvu/assert';
import { keyShard } from '../../../../shared/values/key-text.ts';
import { envelopeProblem } from '../../../../tests/helpers/contract.ts';
import { makeEndClients } from '../../../../tests/helpers/end-clients.ts';
import { waitingEvents } from '../../../../tests/helpers/outbox.ts';
import { eventually, makeWorld, outputListeners } from '../../../../tests/helpers/world.ts';

export type Ask = {
  to?: string;
  method?: string;
  body?: string;
  token?: string | null;
  headers?: Record<string, string>;
};
export type Answered = {
  status: number;
  headers: Headers;
  text: string;
  error: { code: number; message: string } | undefined;
};
export type Asking = Awaited<ReturnType<typeof openAsking>>;

export const POLICY = 'usage=1,name=reads,scope=documents.read';
export const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });

/** Starts a world with the keys of end clients, and asks verify as gateways do. */
export async function openAsking() {
  const world = await makeWorld(['verify']);
  const clients = await makeEndClients(world);
  const redis = new Redis(world.env.REDIS_URL!);
  let output = '';
  const listen = (text: string) => void (output += text);
  outputListeners.add(listen);

  async function ask(path: string, options: Ask = {}): Promise<Answered> {
    const { to = world.verify!.url, method = 'GET', body, token = clients.token, headers = {} } = options;
    const sent = { ...(token !== null && { 'X-Keytally-Token': token }), ...headers };
    const init = { method, headers: sent, ...(body !== undefined && { body }) };
    const response = await fetch(`${to}/gateway/${path}`, init);
    const text = await response.text();
    const { status } = response;
    // nginx gets 403 where the envelope says 429.
    const problem =
      status < 400 || method === 'HEAD' || path.startsWith('nginx')
        ? undefined
        : envelopeProblem({ status, headers: response.headers, text });
    assert.is(problem, undefined, text);
    const { error } = (text ? JSON.parse(text) : {}) as { error?: { code: number; message: string } };
    return { status, headers: response.headers, text, error };
  }

  return {
    world,
    clients,
    ask,
    /** Asks with the good key. */
    pass: (path: string, options: Ask = {}) =>
      ask(path, { ...options, headers: { ...bearer(clients.good.key), ...options.headers } }),
    /** Sends until the log has the cause, at most once a second; each answer is a 500 that says nothing of the gateway. */
    async mistake(send: () => Promise<Answered>, cause: RegExp): Promise<void> {
      output = '';
      await eventually(`the log has ${cause}`, async () => {
        const { status, error, text } = await send();
        assert.equal([status, error?.code], [500, 50002], text);
        assert.not.match(text, /gateway|token|policy|dialect/i);
        return output.split('\n').some((line) => line.includes('a gateway is set up wrongly') && cause.test(line));
      });
    },
    /** The newest event of a key's shard: cost in micro-credits, usage name, route. */
    async newestEvent(key: string): Promise<{ c: number; n: string; r: string }> {
      return JSON.parse((await waitingEvents(redis, keyShard(key)!)).at(-1) ?? '');
    },
    async stop() {
      outputListeners.delete(listen);
      redis.disconnect();
      await world.stop();
    },
  };
}
