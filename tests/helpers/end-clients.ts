import { makeCustomers, must, newWorkspace } from './customers.ts';
import { eventually, type World } from './world.ts';

/** The keys that a guard or a gateway meets: one for each way in which a request passes or is refused. */
export type EndClients = Awaited<ReturnType<typeof makeEndClients>>;

/** A refused key's status and code, where reading `documents` costs one credit. */
export const refusals = {
  unknown: [401, 40112],
  expired: [401, 40113],
  disabled: [401, 40114],
  deleted: [401, 40115],
  noScope: [403, 40310],
  local: [403, 40311],
  slow: [429, 42910],
  hourly: [429, 42912],
  spent: [429, 42913],
  poor: [402, 40210],
  capped: [402, 40211],
  noRecord: [403, 40313],
} as const;

export const MOST_PER_SECOND = 100_000;

/** Makes a workspace with these keys, and the access token of a gateway. */
export async function makeEndClients(world: World) {
  const id = await newWorkspace(world);
  const customers = makeCustomers(world, id);
  const at = `/api/v1/workspace/${id}`;
  for (const representation of ['documents', 'reports'])
    await must(201, world.call('post', `${at}/scope`, { name: representation, representation }));
  const scopes = [{ representation: 'documents', read: true }];
  const meter = await customers.newMeter({ totalCredits: '100000' });
  const identity = { customerId: 'cus acmé', externalMeterId: meter };
  const both = [...scopes, { representation: 'reports', read: true }];
  const good = await customers.newKey({ scopes: both, ...identity, rateLimitPerSecond: MOST_PER_SECOND });
  const deleted = await customers.newKey({ scopes });
  await must(200, world.call('delete', `${at}/api-key/${deleted.id}`));
  const newKey = async (fields: object) => (await customers.newKey({ scopes, ...fields })).key;
  const slow = await newKey({ rateLimitPerSecond: 1 });
  // Used up here; they slide, so that nothing comes back before most of an hour has passed.
  const hourly = await newKey({ limits: [{ name: 'hourly', unit: 'requests', limit: 1, per: 'hour' }] });
  const spent = await newKey({ limits: [{ name: 'budget', unit: 'credits', limit: '1', per: 'hour' }] });
  for (const key of [hourly, spent]) {
    const one = { key, billing: { usage: '1' } };
    await must(200, world.call('post', `${world.verify!.url}/api/v1/api-key/verify`, one));
  }
  const capped = { totalCredits: '9', spendCap: '0.5' };
  const gateway = { name: 'gateway', permissions: ['key:verify'], workspaceIds: [id] };

  return {
    workspaceId: id,
    customers,
    good: { ...good, meter },
    token: (await must(201, world.call('post', '/api/v1/access-token', gateway))).body.accessToken.token as string,
    keys: {
      unknown: 'key_nobody',
      slow,
      hourly,
      spent,
      capped: await newKey({ externalMeterId: await customers.newMeter(capped) }),
      noRecord: await newKey({ externalMeterId: 'no_record' }),
      poor: await newKey({ externalMeterId: await customers.newMeter({ totalCredits: '0.5' }) }),
      local: await newKey({ allowedIPs: ['203.0.113.0/24', '2001:db8::/32'] }),
      expired: await expiredKey(),
      noScope: (await customers.newKey()).key,
      disabled: await newKey({ enabled: false }),
      deleted: deleted.key,
    },
    usedCredits: async () => Number((await customers.billing(meter)).usedCredits),
    /** Sends requests of the slow key until one is refused for its rate: a new second may begin in between. */
    async whileRateLimited<T>(send: () => Promise<T>, isRefused: (answer: T) => boolean): Promise<T> {
      return eventually('the limit per second is used up', async () => {
        const answers = await Promise.all([send(), send(), send()]);
        return answers.find(isRefused);
      });
    },
  };

  // Nobody may make a key that has expired: Postgres is told so, and the next change brings it into force.
  async function expiredKey(): Promise<string> {
    const { id: keyId, key } = await customers.newKey({ scopes });
    await world.sql`update api_keys set expires_at = ${Date.now() - 1_000} where id = ${keyId}`;
    await must(200, world.call('patch', `${at}/api-key/${keyId}`, { name: 'expired' }));
    return key;
  }
}
