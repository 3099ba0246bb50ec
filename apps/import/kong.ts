import type { Limit } from '../../shared/contract/limits.ts';
import { given, nameOf, othersIn, textOf } from './fields.ts';
import type { Found } from './rows.ts';
import { objectIn, type Entry } from './read-json.ts';

type Fields = Record<string, unknown>;
type Placed = Found & { entry: Entry };

/**
 * Keys of Kong: consumers with their credentials, as decK writes them; or lists of both, where a credential names its consumer. Of such
 * lists it keeps the names of consumers, and the credentials that come before their consumer.
 */
export function makeKongReader() {
  const consumers = new Map<string, Fields>();
  const early: { entry: Entry; value: Fields; id: string }[] = [];

  function read(entry: Entry): Placed[] {
    const { list } = entry;
    if (gateways.includes(list)) return [];
    const value = objectIn(entry);
    if (list === 'consumers') return consumer(entry, value);
    if (!['keyauth_credentials', 'data', ''].includes(list)) return [{ entry, aside: true, lost: [list] }];
    const named = value['consumer'] ?? {};
    const own = typeof named === 'string' ? { username: named } : (named as Fields);
    const id = textOf(own['id']) ?? textOf(own['username']);
    if (list !== 'keyauth_credentials' || id === undefined || own['custom_id'] !== undefined)
      return [{ entry, ...ofKey(value, own) }];
    const known = consumers.get(id);
    if (known) return [{ entry, ...ofKey(value, known) }];
    early.push({ entry, value, id });
    return [];
  }

  function consumer(entry: Entry, value: Fields): Placed[] {
    const { id, username, custom_id, keyauth_credentials: credentials } = value;
    const names = { id, username, custom_id };
    for (const name of [id, username]) if (textOf(name)) consumers.set(name as string, names);
    const keys = Array.isArray(credentials) ? (credentials as Fields[]) : [];
    const { limits, lost } = limitsOf(value['plugins'], keys.length);
    const others = [...lost, ...othersIn(value, ofConsumer)];
    if (keys.length === 0) return others.length > 0 ? [{ entry, aside: true, lost: others }] : [];
    const found = keys.map((key) => ({ entry, ...ofKey(key, names, limits) }));
    found[0]!.lost.push(...others);
    return found;
  }

  return {
    read,
    /** The credentials whose consumer came after them, or is not in the file. */
    rest: (): Placed[] =>
      early.map(({ entry, value, id }) => ({
        entry,
        ...ofKey(value, consumers.get(id) ?? (value['consumer'] as Fields)),
      })),
  };
}

// What configures the gateway, and is of no consumer.
const gateways = [
  'services',
  'routes',
  'upstreams',
  'targets',
  'certificates',
  'ca_certificates',
  'snis',
  'vaults',
  'partials',
];
const ofConsumer = ['id', 'username', 'custom_id', 'keyauth_credentials', 'plugins', 'created_at', 'updated_at'];
const ofCredential = ['id', 'key', 'tags', 'consumer', 'created_at', 'updated_at'];

function ofKey(credential: Fields, { username, custom_id, id }: Fields, limits: Fields = {}): Found {
  const { key, tags } = credential;
  return {
    item: {
      name: nameOf(username, custom_id, 'Kong key'),
      key,
      ...given('customerId', textOf(custom_id) ?? textOf(username) ?? textOf(id)),
      ...(Array.isArray(tags) && tags.length > 0 && { metadata: { tags: tags as unknown[] } }),
      ...limits,
    },
    ...given('id', textOf(credential['id'])),
    lost: othersIn(credential, ofCredential),
  };
}

const windows = ['minute', 'hour', 'day', 'month', 'year'] as const;

/** The limits of a consumer's plugin rate-limiting, for each of its keys; and what of its plugins has no place. */
function limitsOf(plugins: unknown, keys: number): { limits: Fields; lost: string[] } {
  const all = Array.isArray(plugins) ? (plugins as Fields[]) : [];
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
