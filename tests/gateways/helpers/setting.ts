import { Redis } from 'ioredis';
import type { suite } from 'uvu';
import { keyShard } from '../../../shared/values/key-text.ts';
import { makeEndClients, type EndClients } from '../../helpers/end-clients.ts';
import { waitingEvents } from '../../helpers/outbox.ts';
import { makeWorld, wireTo, type Wire, type World } from '../../helpers/world.ts';
import { startApi, startGateway, type BeginGateway } from './gateway.ts';

type Gateway = Awaited<ReturnType<typeof startGateway>>;

/** What a gateway's tests run in: keytally, an API, and the gateway between end clients and both. */
export type Setting = {
  quirks: Quirks;
  world: World;
  clients: EndClients;
  /** Between the gateway and verify. */
  wire: Wire;
  gateway: Gateway;
  /** Starts the same gateway once more, with another access token, in another way, or waiting for verify so long. */
  startWith(token: string, begin?: BeginGateway, timeout?: string): Promise<Gateway>;
  api: Awaited<ReturnType<typeof startApi>>;
  redis: Redis;
};
export type Quirks = {
  /** The gateway passes on the body of a refusal, which holds its code. */
  envelope?: boolean;
  /** The gateway passes on RateLimit when a request passes. */
  rateLimit?: boolean;
  /** The gateway captures what the API says that a request did cost. */
  settles?: boolean;
};
export type Test = ReturnType<typeof suite>;
/** Tests by their titles. */
export type Cases = Record<string, (setting: Setting) => Promise<void>>;

/** Starts everything, and puts it into `setting` as soon as it runs, so that `closeSetting` can stop a part of it. */
export async function openSetting(setting: Setting, name: string, begin: BeginGateway): Promise<void> {
  setting.world = await makeWorld(['verify'], { TRUSTED_PROXIES: '127.0.0.1' });
  setting.clients = await makeEndClients(setting.world);
  setting.wire = await wireTo(setting.world.verify!.url);
  setting.api = await startApi();
  setting.redis = new Redis(setting.world.env.REDIS_URL!);
  const to = { verifyUrl: setting.wire.url, apiPort: setting.api.port };
  setting.startWith = (token, other = begin, timeout) =>
    startGateway(name, process.env.TEST_FOLDER!, other, { ...to, token, ...(timeout !== undefined && { timeout }) });
  setting.gateway = await setting.startWith(setting.clients.token);
}

export async function closeSetting({ redis, gateway, api, wire, world }: Partial<Setting>): Promise<void> {
  redis?.disconnect();
  await gateway?.stop();
  api?.stop();
  await wire?.cut();
  await world?.stop();
}

export const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });

/** Cost in micro-credits, usage name and route of the last usage event in a key's shard. */
export async function newestEvent({ redis }: Setting, key: string): Promise<{ c: number; n: string; r: string }> {
  return JSON.parse((await waitingEvents(redis, keyShard(key)!)).at(-1) ?? '');
}
