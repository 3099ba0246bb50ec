import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Contract, Keytally } from '../../clients/node/index.ts';
import { mapLimited } from '../../shared/runtime/map-limited.ts';
import { bodyOf } from '../world.ts';

type Limits = NonNullable<Contract['post /api/v1/api-key']['input']['limits']>;
type Kind = {
  records: number;
  limits?: Limits;
  ofRecord?: Limits;
  hasGrants?: boolean;
  holdSeconds?: number;
};

/** For how long credits are held: longer than a benchmark takes. */
const HOLD_SECONDS = 7_200;
// As the plain ones have, so calls of a script share as much. Few records do, but with holds: a record has at most 10,000.
const KEYS_PER_RECORD = 10;
const FEW = 20;
const FOR_HOLDS = 60;
const AT_ONCE = 4;
const DAY_MS = 86_400_000;

const much = { unit: 'credits', limit: '9000000', per: 'hour' } as const;
const limits: Limits = [
  { ...much, name: 'minute', unit: 'requests', limit: 9_000_000, per: 'minute' },
  { ...much, name: 'hour' },
  { ...much, name: 'daily', per: 'day', timezone: 'Europe/Berlin', usageName: 'default' },
  { ...much, name: 'monthly', per: 'month', shadow: true },
];
const ofRecord: Limits = [
  { ...much, name: 'day', per: 'day' },
  { ...much, name: 'second', per: 'second' },
];
const users = [{ representation: 'users', read: true }];
const kinds = {
  limits: { records: FEW, limits },
  grants: { records: FEW, hasGrants: true },
  all: { records: FEW, limits, ofRecord, hasGrants: true },
  holds: { records: FOR_HOLDS, holdSeconds: HOLD_SECONDS },
} satisfies Record<string, Kind>;

/** Files of bodies that verify keys: with limits, with grants, with all of it and plain ones that hold their credits. */
export type AccountBodies = Record<keyof typeof kinds, string>;

/** Makes the keys of each kind, with their records, and writes the bodies into a folder. */
export async function makeAccountKeys(client: Keytally, workspaceId: string, folder: string): Promise<AccountBodies> {
  const files = Object.entries<Kind>(kinds).map(async ([name, kind]) => {
    const file = join(folder, `bodies-${name}`);
    const keys = await keysOf(client, { workspaceId, name, kind });
    writeFileSync(file, keys.map((key) => `${bodyOf(key, kind)}\n`).join(''));
    return [name, file] as const;
  });
  return Object.fromEntries(await Promise.all(files)) as AccountBodies;
}

async function keysOf(client: Keytally, of: { workspaceId: string; name: string; kind: Kind }): Promise<string[]> {
  const records = Array.from({ length: of.kind.records }, (_, record) => record);
  return (await mapLimited(records, AT_ONCE, (record) => keysOfRecord(client, of, record))).flat();
}

/** Makes a record of a kind, and gives its keys. */
export async function keysOfRecord(
  client: Keytally,
  { workspaceId, name, kind }: { workspaceId: string; name: string; kind: Kind },
  record: number,
): Promise<string[]> {
  const meter = { workspaceId, externalMeterId: `${name}-${record}` };
  const { billing } = await client.billing.create({ ...meter, totalCredits: '1000000', limits: kind.ofRecord });
  const ends = [Date.now() + DAY_MS, Date.now() + 30 * DAY_MS, undefined];
  for (const [i, expiresAt] of kind.hasGrants ? ends.entries() : [])
    await client.grants.create({ bid: billing.id, credits: '1000000', priority: 10 * (i + 1), expiresAt });
  const key = {
    ...meter,
    name,
    scopes: users,
    rateLimitPerSecond: 1_000_000,
    metadata: { plan: 'pro', seats: 12 },
  };
  const keys: string[] = [];
  while (keys.length < KEYS_PER_RECORD)
    keys.push((await client.apiKeys.create({ ...key, limits: kind.limits })).apiKey.key);
  return keys;
}
