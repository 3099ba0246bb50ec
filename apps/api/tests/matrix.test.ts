import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions, type Permission } from '../../../shared/contract/caller.ts';
import type { ApiRoute } from '../http/route.ts';
import { routes } from '../routes/index.ts';
import { makeBackground } from './helpers/background.ts';
import {
  guarded,
  inUsableOrder,
  makeThings,
  nameOf,
  requests,
  sendTo,
  thingsReadBy,
  unknownThing,
  type Refusal,
  type Things,
} from './helpers/requests.ts';
import { differences, snapshot } from './helpers/snapshot.ts';
import { callsOf, makeWorld, newWorkspace, refused, type Answer } from './helpers/calls.ts';

// Every operation with every kind of token: a forbidden request is refused and leaves no trace in any store.

const world = await makeWorld(['verify', 'consumer']);
const calls = callsOf(world);
const background = makeBackground(world);
const TOKENS = '/api/v1/access-token';
const stranger = (await world.newTeam()).token;
const [ours, theirs] = await Promise.all([makeThings(world, world.team.token), makeThings(world, stranger)]);
// A proof waits for events that are on their way into the books.
await world.booked();
// Nothing is left to plan for external meters: the job that does it would come at its own time.
await world.sql`update meter_destinations set backfilled_to = null`;
await world.sql`delete from meter_days`;

test('all operations but these need a permission', () => {
  // This test decides which operations are open to all: forgetting a permission does not make one open.
  const open = routes.filter((route) => !route.permission).map(nameOf);
  assert.equal(open, [
    'get /team/{team}/.well-known/jwks.json',
    'get /team/{team}/.well-known/openid-configuration',
    'get /.well-known/jwks.json',
  ]);
});

test('an unknown token gets 401 from every operation, and changes nothing', async () => {
  const fields = { name: 'n', permissions: [...permissions], expiresAt: Date.now() + 60_000 };
  const [revoked, expired] = [await calls.make(TOKENS, fields), await calls.make(TOKENS, fields)];
  await calls.remove(`${TOKENS}/${revoked.id}`);
  await world.sql`update access_tokens set expires_at = 1 where id = ${expired.id}`;
  await background.apply('token', expired.id);
  const unknown = `${ours.keyText.slice(0, -1)}${ours.keyText.endsWith('0') ? '1' : '0'}`;
  const strangers = Object.entries({
    'an unknown token': unknown,
    'a revoked token': revoked.token,
    'an expired token': expired.token,
    'an API key': ours.keyText,
    'a link token': ours.linkToken,
  });
  let asked = 0;
  await unchangedBy(guarded, async (route) => {
    // One after the other: all operations find out in one place who asks.
    const [name, token] = strangers[asked++ % strangers.length]!;
    for (const [who, secret, code] of [['no token', null, 40101] as const, [name, token, 40102] as const])
      for (const answer of await send(route, ours, secret)) {
        await refused(code, answer, `${who}: ${nameOf(route)}`);
        assert.is(answer.headers.get('www-authenticate'), 'Bearer');
      }
  });
});

test('a token with every permission except the required one gets 403, and changes nothing', async () => {
  const tokens = await tokensFor((route) => permissions.filter((permission) => permission !== route.permission));
  await unchangedBy(guarded, async (route) => {
    for (const answer of await send(route, ours, tokens.get(route)!)) await refused(40301, answer, nameOf(route));
  });
});

test('a token limited to another workspace reaches nothing in ours, and changes nothing', async () => {
  const elsewhere = await newWorkspace(world);
  const limited = await world.newToken(world.team.id, permissions, [elsewhere]);
  const reachNothing = async (route: ApiRoute) => {
    const { limited: refusal, make } = requests[nameOf(route)]!;
    for (const answer of await send(route, ours, limited)) expectRefusal(answer, [refusal], nameOf(route));
    // A path with the stranger's own workspace, and then a resource of ours.
    const [first, second] = thingsReadBy(make, theirs);
    if (first !== 'workspace' || !second) return;
    for (const answer of await send(route, { ...ours, workspace: elsewhere }, limited))
      expectRefusal(answer, [unknownThing[second]], nameOf(route));
  };
  const isOfItsOwn = (route: ApiRoute) => requests[nameOf(route)]!.limited === 'their own';
  const others = guarded.filter((route) => !isOfItsOwn(route));
  await unchangedBy(others, reachNothing);
  for (const route of guarded.filter(isOfItsOwn)) await reachNothing(route);
});

test("another team's token reaches nothing of ours, whichever of the ids is ours, and changes nothing", async () => {
  const thingsOf = (route: ApiRoute) => thingsReadBy(requests[nameOf(route)]!.make, theirs);
  await unchangedBy(
    guarded.filter((route) => thingsOf(route).length > 0),
    async (route) => {
      const { foreign } = requests[nameOf(route)]!;
      for (const taken of subsets(thingsOf(route))) {
        const mixed = { ...theirs, ...Object.fromEntries(taken.map((name) => [name, ours[name]])) };
        const refusals = foreign !== undefined ? [foreign] : taken.map((name) => unknownThing[name]);
        for (const answer of await send(route, mixed, stranger))
          expectRefusal(answer, refusals, `${nameOf(route)} with our ${taken.join(' and ')}`);
      }
    },
  );
  // A request that names nothing concerns their own team.
  for (const route of guarded.filter((one) => thingsOf(one).length === 0))
    for (const answer of await send(route, theirs, stranger)) expectRefusal(answer, ['their own'], nameOf(route));
});

test('every permitted request succeeds; reading changes nothing, and a change is seen here and leaves one line in the audit log, of what and by which request, without the secret that it made', async () => {
  // A token can grant only what it holds.
  const granting: Record<string, Permission[]> = {
    [TOKENS]: ['key:read'],
    '/api/v1/link-token': ['key:read', 'billing:read', 'usage:read'],
  };
  const tokens = await tokensFor((route) => [
    route.permission!,
    ...(route.alsoPermission ? [route.alsoPermission] : []),
    ...(granting[route.path] ?? []),
  ]);
  const permitted = async (route: ApiRoute) => {
    const answers = await send(route, ours, tokens.get(route)!);
    for (const answer of answers) assert.is(answer.status, route.status ?? 200, `${nameOf(route)}: ${answer.text}`);
    return answers[0]!;
  };
  // Once the team has its key, signing stores nothing.
  const changes = (route: ApiRoute) =>
    (route.writes === true && nameOf(route) !== 'post /api/v1/jwt') || route.permission === 'key:verify';
  await unchangedBy(
    guarded.filter((route) => !changes(route)),
    permitted,
  );
  const before = await look();
  const secrets = [ours.keyText, ours.linkToken];
  for (const route of inUsableOrder(guarded.filter(changes))) {
    const last = await lastLine();
    const { body, headers } = await permitted(route);
    const { apiKey, accessToken, linkToken, workspace, scope, grant, grantSchedule, billing } = body;
    for (const secret of [apiKey?.key, accessToken?.token, linkToken?.token]) if (secret) secrets.push(secret);
    // With a workspace go its webhooks, each with a line of its own.
    const lines = (await changesSince(last)).filter(({ resource }) => !workspace || resource === 'workspace');
    const id = (apiKey ?? workspace ?? scope ?? grant ?? grantSchedule ?? billing)?.id ?? lines[0]?.resourceId;
    const operation = `${route.method.toUpperCase()} ${route.path}`;
    const told = lines.map((line) => [line.operation, line.requestId, line.resourceId]);
    // Usage is in the books instead.
    const isUsage = /verify|\/usage\//.test(nameOf(route));
    assert.equal(told, isUsage ? [] : [[operation, headers.get('x-request-id'), id]], nameOf(route));
  }
  const seen = differences(before, await look());
  assert.ok(seen.length > 30 && seen.some((name) => name.endsWith(':outbox')), seen.join());
  const log = JSON.stringify(await world.sql`select * from audit_log`);
  assert.is(secrets.length, 2 + 4, 'a key, its rotation, a link token and an access token were made');
  for (const secret of secrets) assert.not.ok(log.includes(secret.slice(10)), 'a secret is in the audit log');
});

const look = (): Promise<Record<string, string>> => snapshot({ sql: world.sql, redis: world.redis.node(0).client });

async function lastLine(): Promise<string> {
  return (await world.sql<[{ last: string }]>`select max(id) as last from audit_log`)[0].last;
}

async function changesSince(last: string) {
  return world.sql<Record<'operation' | 'requestId' | 'resource' | 'resourceId', string>[]>`
    select operation, request_id, resource, resource_id from audit_log where id > ${last} and outcome = 'changed'`;
}

/** Asks each of some operations for something that leaves no trace. */
async function unchangedBy(asked: ApiRoute[], act: (route: ApiRoute) => Promise<unknown>): Promise<void> {
  const [before, last] = [await look(), await lastLine()];
  for (const route of asked) await act(route);
  assert.equal([...differences(before, await look()), ...(await changesSince(last))], [], 'something changed');
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
function send(route: ApiRoute, things: Things, token: string | null): Promise<Answer[]> {
  return sendTo(world, route, requests[nameOf(route)]!.make(things), { token });
}

function subsets<T>(items: T[]): T[][] {
  return items.reduce<T[][]>((all, item) => [...all, ...all.map((one) => [...one, item])], [[]]).slice(1);
}

/** A token of our team for each operation; those with the same permissions are one. */
async function tokensFor(granted: (route: ApiRoute) => readonly Permission[]): Promise<Map<ApiRoute, string>> {
  const made = new Map<string, string>();
  const tokens = new Map<ApiRoute, string>();
  for (const route of guarded) {
    const name = granted(route).join();
    const token = made.get(name) ?? (await world.newToken(world.team.id, granted(route)));
    made.set(name, token);
    tokens.set(route, token);
  }
  return tokens;
}
