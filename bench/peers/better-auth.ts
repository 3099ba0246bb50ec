// better-auth with its API-key plugin, behind the server of ./server.ts.
// STORAGE=postgres (default): DATABASE_URL, whose tables its own migration makes. STORAGE=redis: REDIS_URL, with the keys in
// secondary storage alone, which its documentation names for speed, by its own Redis storage.
//
// Does: hash the key, look it up, check enabled and expiry, count it against a rate limit and take 1 from `remaining`.
// Doesn't: costs other than 1 or fractions, credits that several keys share, scopes with flags, an event per call, one
// step for it all.
// - On Postgres a verification is a select and three updates one after another, each atomic, without a transaction around
//   them: a call that the rate refuses has been debited by then. The call that finds no credits left deletes the key, and
//   with that refuses calls that were debited and are still on their way.
// - In Redis the key is read, changed and written back: calls at the same time lose each other's counts, so credits are
//   spent twice. Each verification also reads and rewrites the list of its owner's keys, one at a time per owner.
import { randomBytes } from 'node:crypto';
import { apiKey } from '@better-auth/api-key';
import { redisStorage } from '@better-auth/redis-storage';
import { betterAuth } from 'better-auth';
import { getMigrations } from 'better-auth/db/migration';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import { ratePerSecond, remaining, serve } from './server.ts';

const { STORAGE = 'postgres', DATABASE_URL, REDIS_URL, PORT } = process.env;
if (STORAGE !== 'postgres' && STORAGE !== 'redis') throw new Error('STORAGE is postgres or redis');
const inRedis = STORAGE === 'redis';
if (!(inRedis ? REDIS_URL : DATABASE_URL)) throw new Error(`${inRedis ? 'REDIS_URL' : 'DATABASE_URL'} is needed`);

const auth = betterAuth({
  baseURL: `http://127.0.0.1:${PORT}`,
  secret: randomBytes(32).toString('base64'),
  ...(inRedis
    ? { secondaryStorage: redisStorage({ client: new Redis(REDIS_URL!) }) }
    : { database: new Pool({ connectionString: DATABASE_URL }) }),
  // It would write a line for every call that it refuses.
  logger: { disabled: true },
  telemetry: { enabled: false },
  plugins: [
    apiKey({
      storage: inRedis ? 'secondary-storage' : 'database',
      rateLimit: { enabled: true, timeWindow: 1_000, maxRequests: ratePerSecond },
    }),
  ],
});

if (!inRedis) await (await getMigrations(auth.options)).runMigrations();

await serve(
  // An owner for each key, as customers are: with one for all, Redis storage would verify one key at a time.
  async (index) => (await auth.api.createApiKey({ body: { userId: `customer-${index}`, remaining } })).key,
  async (key) => (await auth.api.verifyApiKey({ body: { key } })).valid,
);
