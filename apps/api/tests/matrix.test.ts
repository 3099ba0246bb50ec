import { Redis } from 'ioredis';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions, type Permission } from '../../../shared/contract/caller.ts';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { eventually, makeWorld, once, request, type Answer, type World } from '../../../tests/helpers/world.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { waitingEvents } from '../../../tests/helpers/outbox.ts';
import type { ApiRoute } from '../http/route.ts';
import { routes } from '../routes/index.ts';
import {
  EVENTS_OF_THINGS,
  inUsableOrder,
  makeThings,
  requests,
  unknownThing,
  type Refusal,
  type Things,
} from './helpers/requests.ts';
import { differences, snapshot } from './helpers/snapshot.ts';

// Every operation with every kind of token: a forbidden request is refused and leaves no trace in any store.
let world: World;
let redis: Redis;
let books: Books;
let ours: Things;
let theirs: Things;
let stranger: string;
// The snapshot after the last watched call; undefined once something was changed on purpose.
let lastSeen: Record<string, string> | undefined;
const test = suite('who may do what');
const MADE = 2 * EVENTS_OF_THINGS;
/** How many lines an operation on a record with an account leaves in the books: a change of its settings is a turn. */
const linesOf: Record<string, number> = {
  'post /api/v1/customer-billing/refill': 1,
  'patch /api/v1/customer-billing/{bid}': 1,
  'post /api/v1/customer-billing/{bid}/adjustment': 1,
  'post /api/v1/customer-billing/{bid}/grant': 1,
  // Its settings, the void, and its turn.
  'post /api/v1/customer-billing/{bid}/grant/{gid}/void': 3,
  'post /api/v1/customer-billing/{bid}/grant-schedule': 1,
  // Its settings, and the voids of two periods: each is told by a turn only where it had begun.
  'delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}': 3,
};

test.before(async () => {
  world = await makeWorld(['api', 'verify', 'consumer']);
  redis = new Redis(world.env.REDIS_URL!);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  stranger = (await world.newTeam()).token;
  await settled();
  [ours, theirs] = [await makeThings(world, world.team.token), await makeThings(world, stranger)];
  await settled(MADE);
});

test.after(async () => {
  redis?.disconnect();
  await Promise.all([books?.close(), world?.stop()]);
});

const guarded = routes.filter((route) => route.permission);
const nameOf = (route: ApiRoute) => `${route.method} ${route.path}`;

test('the matrix has exactly the operations that need a token', () => {
  assert.equal(guarded.map(nameOf).toSorted(), Object.keys(requests).toSorted());
  // This test decides which operations are open to all: forgetting a permission does not make one open.
  const open = routes.filter((route) => !route.permission).map(nameOf);
  assert.equal(open, [
    'get /team/{team}/.well-known/jwks.json',
    'get /team/{team}/.well-known/openid-configuration',
    'get /.well-known/jwks.json',
  ]);
});

test('an unknown token gets 401 from every operation, and changes nothing', async () => {
  const { token: revoked, accessToken } = await newToken();
  await must(200, world.call('delete', `/api/v1/access-token/${accessToken.id}`));
  const { token: expired, accessToken: passing } = await newToken({ expiresAt: Date.now() + 60_000 });
  await world.sql`update access_tokens set expires_at = 1 where id = ${passing.id}`;
  await world.sql`insert into changes (kind, entity_id, shard, created_at)
    select 'token', id, shard, now() - interval '1 hour' from access_tokens where id = ${passing.id}`;
  await settled(MADE);
  const unknown = `${ours.keyText.slice(0, -1)}${ours.keyText.endsWith('0') ? '1' : '0'}`;
  const strangers: Record<string, [token: string | null, code: number]> = {
    'no token': [null, 40101],
    'an unknown token': [unknown, 40102],
    'a revoked token': [revoked, 40102],
    'an expired token': [expired, 40102],
    'an API key': [ours.keyText, 40102],
    'a link token': [ours.linkToken, 40102],
  };
  for (const route of guarded) {
    await unchanged(nameOf(route), async (what) => {
      for (const [name, [token, code]] of Object.entries(strangers)) {
        for (const answer of await send(route, ours, token)) {
          assert.is(answer.status, 401, `${name}: ${what}: ${answer.text}`);
          assert.is(answer.body.error.code, code, `${name}: ${what}`);
          assert.is(answer.headers.get('www-authenticate'), 'Bearer');
        }
      }
    });
  }
});

test('a token with every permission except the required one gets 403, and changes nothing', async () => {
  const tokens = await tokensFor((route) => permissions.filter((permission) => permission !== route.permission));
  for (const [route, token] of tokens) {
    await unchanged(nameOf(route), async (what) => {
      for (const answer of await send(route, ours, token)) assert.is(answer.body.error?.code, 40301, what);
    });
  }
});

test('a token limited to another workspace reaches nothing in ours, and changes nothing', async () => {
  const elsewhere = (await must(201, world.call('post', '/api/v1/workspace', { name: 'elsewhere' }))).body.workspace.id;
  const limited = await world.newToken(world.team.id, permissions, [elsewhere]);
  await settled(MADE);
  for (const route of guarded) {
    const { limited: refusal } = requests[nameOf(route)]!;
    await unchanged(
      nameOf(route),
      async (what) => {
        for (const answer of await send(route, ours, limited)) expectRefusal(answer, [refusal], what);
        // A path with the stranger's own workspace, and then a resource of ours.
        const [first, second] = thingsReadBy(requests[nameOf(route)]!.make);
        if (first !== 'workspace' || !second) return;
        for (const answer of await send(route, { ...ours, workspace: elsewhere }, limited))
          expectRefusal(answer, [unknownThing[second]], what);
      },
      refusal !== 'their own',
    );
  }
});

test("another team's token reaches nothing of ours, whichever of the ids is ours, and changes nothing", async () => {
  for (const route of guarded) {
    const { foreign, make } = requests[nameOf(route)]!;
    await unchanged(nameOf(route), async (what) => {
      for (const taken of subsets(thingsReadBy(make))) {
        const mixed = { ...theirs, ...Object.fromEntries(taken.map((name) => [name, ours[name]])) };
        const refusals = foreign !== undefined ? [foreign] : taken.map((name) => unknownThing[name]);
        for (const answer of await send(route, mixed, stranger))
          expectRefusal(answer, refusals, `${what} with our ${taken.join(' and ')}`);
      }
    });
    if (thingsReadBy(make).length > 0) continue;
    // A request that names nothing concerns their own team.
    for (const answer of await send(route, theirs, stranger)) expectRefusal(answer, ['their own'], nameOf(route));
    lastSeen = undefined;
  }
});

test('every permitted request succeeds, and the snapshot sees what it changes', async () => {
  // A token can grant only what it holds.
  const also = ({ path }: ApiRoute): readonly Permission[] =>
    path === '/api/v1/access-token'
      ? ['key:read']
      : path === '/api/v1/link-token'
        ? ['key:read', 'billing:read', 'usage:read']
        : [];
  const tokens = new Map(
    await tokensFor((route) => [
      route.permission!,
      ...(route.alsoPermission ? [route.alsoPermission] : []),
      ...also(route),
    ]),
  );
  let events = MADE;
  for (const route of inUsableOrder(guarded)) {
    const token = tokens.get(route)!;
    const before = await snapshot({ sql: world.sql, redis, books });
    for (const answer of await send(route, ours, token)) {
      assert.is(answer.status, route.status ?? 200, `${nameOf(route)}: ${answer.text}`);
    }
    // One on each of the two servers.
    if (route.permission === 'key:verify') await settled((events += requests[nameOf(route)]!.events ?? 2));
    const lines = linesOf[nameOf(route)] ?? 0;
    if (lines > 0) await settled((events += lines));
    const changed = differences(before, await snapshot({ sql: world.sql, redis, books }));
    const debits = route.permission === 'key:verify';
    // Once the team has its key, signing stores nothing.
    const stores = route.writes === true && nameOf(route) !== 'post /api/v1/jwt';
    assert.is(changed.length > 0, stores || debits, `${nameOf(route)} changed ${changed.join(', ')}`);
  }
});

test.run();

/** A token of our team for each operation; all are in force. */
async function tokensFor(granted: (route: ApiRoute) => readonly Permission[]): Promise<[ApiRoute, string][]> {
  const tokens = await Promise.all(
    guarded.map(async (route): Promise<[ApiRoute, string]> => [
      route,
      await world.newToken(world.team.id, granted(route)),
    ]),
  );
  await settled();
  return tokens;
}

function expectRefusal(answer: Answer, refusals: Refusal[], what: string): void {
  const ids = [ours.workspace, ours.scope, ours.key, ours.billing, ours.token];
  for (const id of ids) assert.not.ok(answer.text.includes(id), `${what} tells ${id}: ${answer.text}`);
  if (refusals.includes('their own')) return assert.ok(answer.status < 300, `${what}: ${answer.text}`);
  const [refusal] = refusals;
  if (typeof refusal === 'object') return assert.equal(answer.body, refusal.body, what);
  assert.ok(refusals.includes(answer.body.error?.code), `${what}: ${answer.text}`);
}

/** Sends an operation's good request to every server that serves it. */
async function send(route: ApiRoute, things: Things, token: string | null): Promise<Answer[]> {
  const { path = {}, query, body } = requests[nameOf(route)]!.make(things);
  const filled = route.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name]!));
  const asked = query ? `${filled}?${new URLSearchParams(query).toString()}` : filled;
  const servers = [world.api.url, ...(route.permission === 'key:verify' ? [world.verify!.url] : [])];
  const headers = route.idempotencyKeyRequired ? once() : {};
  return Promise.all(servers.map((url) => request(url + asked, route.method, { token, body, headers })));
}

async function unchanged(what: string, act: (what: string) => Promise<void>, watched = true): Promise<void> {
  const before = (lastSeen ??= await snapshot({ sql: world.sql, redis, books }));
  await act(what);
  const after = (lastSeen = await snapshot({ sql: world.sql, redis, books }));
  if (watched) assert.equal(differences(before, after), [], `${what} changed something`);
}

/** Waits until all changes are in Redis and, if `events` is given, that many events are in the books and none is on its way. */
async function settled(events?: number): Promise<void> {
  lastSeen = undefined;
  await eventually('changes are in force', async () => {
    const [row] = await world.sql<[{ waiting: number }]>`
      select count(*)::int as waiting from changes where applied_at is null`;
    return row.waiting === 0;
  });
  if (events === undefined) return;
  await eventually('events are in the books', async () => {
    const result = await books.client.query({
      query: 'select count() as n from usage_events final',
      format: 'JSONEachRow',
    });
    const [row] = await result.json<{ n: string }>();
    return Number(row!.n) === events;
  });
  await eventually('and wait no more', async () => {
    const waiting = await Promise.all(ALL_SHARDS.map((shard) => waitingEvents(redis, shard)));
    return waiting.flat().length === 0;
  });
}

function thingsReadBy(make: (things: Things) => unknown): (keyof Things)[] {
  const read = new Set<keyof Things>();
  make(new Proxy(theirs, { get: (target, name: keyof Things) => (read.add(name), target[name]) }));
  return [...read];
}

/** Every subset that is not empty. */
function subsets<T>(items: T[]): T[][] {
  return items.reduce<T[][]>((all, item) => [...all, ...all.map((one) => [...one, item])], [[]]).slice(1);
}

async function newToken(body: object = {}) {
  const fields = { name: 'n', permissions: [...permissions], ...body };
  const { accessToken } = (await must(201, world.call('post', '/api/v1/access-token', fields))).body;
  return { token: accessToken.token as string, accessToken };
}
