import { keyShard } from '../../../shared/values/key-text.ts';
import { makeEndClients } from '../../helpers/end-clients.ts';
import { waitingEvents } from '../../helpers/outbox.ts';
import { makeWorld, wireTo } from '../../helpers/world.ts';
import { startApi, startGateway, type BeginGateway } from './gateway.ts';

/** What a gateway's tests run in: keytally, an API, and the gateway between end clients and both. */
export type Setting = Awaited<ReturnType<typeof openSetting>>;
export type Quirks = {
  /** The gateway passes on the body of a refusal, which holds its code. */
  envelope?: boolean;
  /** The gateway passes on RateLimit when a request passes. */
  rateLimit?: boolean;
  /** The gateway captures what the API says that a request did cost. */
  settles?: boolean;
};
/** Tests by their titles. */
export type Cases = Record<string, (setting: Setting) => Promise<void>>;

/** Starts all of it: what a gateway, the API behind it and the keytally beside it need. */
export async function openSetting(name: string, begin: BeginGateway, quirks: Quirks) {
  const world = await makeWorld(['verify'], { TRUSTED_PROXIES: '127.0.0.1' });
  const clients = await makeEndClients(world);
  // Between the gateway and verify.
  const wire = await wireTo(world.verify!.url);
  const api = await startApi();
  const redis = world.redis.node(0).client;
  /** Starts the gateway with an access token, once more also in another way, or waiting for verify so long. */
  const startWith = (token: string, other = begin, timeout?: string) => {
    const to = { verifyUrl: wire.url, apiPort: api.port, token, ...(timeout !== undefined && { timeout }) };
    return startGateway(name, process.env.TEST_FOLDER!, other, to);
  };
  const gateway = await startWith(clients.token);
  return { quirks, world, clients, wire, api, redis, startWith, gateway };
}

export const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });

/** Cost in micro-credits, usage name and route of the last usage event in a key's shard. */
export async function newestEvent({ redis }: Setting, key: string): Promise<{ c: number; n: string; r: string }> {
  return JSON.parse((await waitingEvents(redis, keyShard(key)!)).at(-1) ?? '');
}
