import type { Limit } from '../../shared/contract/limits.ts';
import { asObject, given, nameOf, reader } from './fields.ts';
import type { Found } from './rows.ts';

type Fields = Record<string, unknown>;

// What configures the gateway, and is of no consumer.
const gateway = ['services', 'routes', 'upstreams', 'targets', 'certificates', 'ca_certificates', 'snis', 'vaults'];
const times = ['created_at', 'updated_at'];

/** Keys of Kong: consumers with their credentials, as decK writes them; or lists of both, where a credential names its consumer. */
export const kong = {
  lists: ['consumers', 'keyauth_credentials', 'data', ''],
  unread: [...gateway, 'partials'],
  of(document: Fields) {
    const consumers = new Map<unknown, Fields>();
    const listed = document['consumers'] ?? [];
    if (!Array.isArray(listed)) throw new Error('consumers is no list');
    for (const one of listed as (Fields | null)[])
      for (const name of [one?.['id'], one?.['username']]) if (one && name) consumers.set(name, one);
    return (value: Fields, list: string): Found[] => {
      if (list === 'consumers') return ofConsumer(value);
      const named = value['consumer'] ?? {};
      const own = typeof named === 'string' ? { username: named } : (named as Fields);
      return [ofKey(value, consumers.get(own['id'] ?? own['username']) ?? own)];
    };
  },
};

function ofConsumer(value: Fields): Found[] {
  const of = reader(value);
  const names = { id: of('id'), username: of('username'), custom_id: of('custom_id') };
  const credentials = of.raw('keyauth_credentials');
  const keys = Array.isArray(credentials) ? (credentials as unknown[]) : [];
  const { limits, lost } = limitsOf(of.raw('plugins'), keys.length);
  const others = [...lost, ...of.others(times)];
  if (keys.length === 0) return others.length > 0 ? [{ aside: true, lost: others }] : [];
  const found = keys.map((key): Found => {
    try {
      return ofKey(asObject('a credential', key), names, limits);
    } catch (error) {
      return { refused: (error as Error).message, lost: [] };
    }
  });
  found[0]!.lost.push(...others);
  return found;
}

function ofKey(credential: Fields, consumer: Fields, limits: Fields = {}): Found {
  const [of, ofConsumer] = [reader(credential), reader(consumer)];
  const [username, customId, id] = [ofConsumer('username'), ofConsumer('custom_id'), ofConsumer('id')];
  const tags = of.raw('tags');
  return {
    item: {
      name: nameOf(username, customId, 'Kong key'),
      key: of.raw('key'),
      ...given('customerId', customId ?? username ?? id),
      ...(Array.isArray(tags) && tags.length > 0 && { metadata: { tags: tags as unknown[] } }),
      ...limits,
    },
    ...given('id', of('id')),
    lost: of.others(['consumer', ...times]),
  };
}

const windows = ['minute', 'hour', 'day', 'month', 'year'] as const;

/** The limits of a consumer's plugin rate-limiting, for each of its keys; and what of its plugins has no place. */
function limitsOf(plugins: unknown, keys: number): { limits: Fields; lost: string[] } {
  const all = Array.isArray(plugins) ? plugins.map((one) => asObject('a plugin', one)) : [];
  const isLimiting = (one: Fields) => one['name'] === 'rate-limiting' && one['enabled'] !== false && keys > 0;
  const limiting = all.find(isLimiting);
  const config = (limiting?.['config'] ?? {}) as Fields;
  const limits = windows.flatMap((per): Limit[] => {
    const limit = config[per];
    return typeof limit === 'number' && limit >= 1
      ? [{ name: `rate-limiting ${per}`, unit: 'requests', limit, per }]
      : [];
  });
  const { second } = config;
  const lost = all
    .filter((one) => one !== limiting && one['enabled'] !== false)
    .map((one) => `plugin ${String(one['name'])}`);
  if (limiting && keys > 1) lost.push('plugin rate-limiting: of all keys together, now of each');
  return {
    limits: {
      ...(typeof second === 'number' && second >= 1 && { rateLimitPerSecond: second }),
      ...(limits.length > 0 && { limits }),
    },
    lost,
  };
}
