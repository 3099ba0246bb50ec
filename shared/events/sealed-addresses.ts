import { randomBytes } from 'node:crypto';
import { withTimeout } from '../runtime/timeout.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { seal, unseal } from '../values/seal.ts';

// Addresses of end clients travel to the books sealed, under a key of their hour that Redis forgets when the books forget them:
// what keeps lines for longer, as Kafka and dead entries do, keeps nothing that anyone can read.

const HOUR_MS = 3_600_000;
const KEPT_SECONDS = 25 * 3_600;
const WITHIN_MS = 1_000;

/** Seals or opens an address; `bound` is the id of the refusal that it is of. */
export type OfAddress = (text: string, bound: string) => string;

/** Gives what seals addresses now. Without its key, which a lost Redis may take along, they are left out. */
export function makeSealAddresses(redis: ShardedRedis): () => Promise<OfAddress> {
  let known: { hour: number; key: Buffer } | undefined;
  return async () => {
    const hour = Math.floor(redis.clock.now() / HOUR_MS);
    if (known?.hour !== hour) {
      const key = await keyOf(redis, hour, randomBytes(32)).catch(() => undefined);
      known = key && { hour, key };
    }
    const key = known?.key;
    return (address, bound) => (key ? `${hour}.${seal(key, address, bound).toString('base64url')}` : '');
  };
}

/** Gives what opens these sealed addresses; one that does not open, or whose key is gone, is ''. */
export async function openAddresses(redis: ShardedRedis, sealed: readonly string[]): Promise<OfAddress> {
  const hours = [...new Set(sealed.map(hourOf))].filter(Number.isSafeInteger);
  const keys = await Promise.all(hours.map((hour) => keyOf(redis, hour).catch(() => undefined)));
  return (text, bound) => {
    const key = keys[hours.indexOf(hourOf(text))];
    try {
      return key ? unseal(key, Buffer.from(text.slice(text.indexOf('.') + 1), 'base64url'), bound) : '';
    } catch {
      return '';
    }
  };
}

function hourOf(sealed: string): number {
  return Number(sealed.split('.', 1)[0] || NaN);
}

/** The key of an hour, the given one where it has none yet. */
async function keyOf(redis: ShardedRedis, hour: number, fresh?: Buffer): Promise<Buffer | undefined> {
  const { client } = redis.node(0);
  const name = keyspace.addressKey(hour);
  const asked = fresh ? client.set(name, fresh.toString('base64url'), 'EX', KEPT_SECONDS, 'NX') : undefined;
  if (asked) await withTimeout(redis.clock, WITHIN_MS, asked);
  const text = await withTimeout(redis.clock, WITHIN_MS, client.get(name));
  return text === null ? undefined : Buffer.from(text, 'base64url');
}
