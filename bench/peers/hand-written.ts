// What an engineer writes in an afternoon with ioredis and rate-limiter-flexible, behind the server of ./server.ts.
// REDIS_URL.
//
// Does: a record by the SHA-256 of the key, enabled and expiry, a rate limit per second by RateLimiterRedis, credits read,
// checked and decremented, and an event to a stream: four round trips.
// Doesn't: one step for it all. Calls at the same time read the same credits and spend them twice; a crash between the
// steps takes rate without credits, or credits without an event; credits are whole numbers, of one key alone; no scopes,
// no addresses, and nothing that reads or trims the stream.
import { createHash, randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { ratePerSecond, remaining, serve } from './server.ts';

const { REDIS_URL } = process.env;
if (!REDIS_URL) throw new Error('REDIS_URL is needed');
const COST = 1;

const redis = new Redis(REDIS_URL);
const limiter = new RateLimiterRedis({ storeClient: redis, keyPrefix: 'rate', points: ratePerSecond, duration: 1 });

await serve(makeKey, verify);

async function makeKey(): Promise<string> {
  const key = `sk_${randomBytes(24).toString('base64url')}`;
  await redis.hset(`key:${sha256(key)}`, { enabled: '1', expiresAt: Date.now() + 86_400_000, credits: remaining });
  return key;
}

async function verify(key: string): Promise<boolean> {
  const hash = sha256(key);
  const record = await redis.hgetall(`key:${hash}`);
  if (record.enabled !== '1' || Number(record.expiresAt) <= Date.now()) return false;

  try {
    await limiter.consume(hash);
  } catch (refused) {
    if (refused instanceof RateLimiterRes) return false;
    throw refused;
  }

  if (Number(await redis.hget(`key:${hash}`, 'credits')) < COST) return false;
  await Promise.all([
    redis.hincrby(`key:${hash}`, 'credits', -COST),
    redis.xadd('usage', '*', 'key', hash, 'cost', COST, 'at', Date.now()),
  ]);
  return true;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
