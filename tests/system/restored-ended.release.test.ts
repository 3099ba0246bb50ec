import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../helpers/customers.ts';
import { backUp, restore, runRestored } from '../helpers/postgres/older-postgres.ts';
import { eventually, makeWorld, type Started, type World } from '../helpers/world.ts';

// What a team ended after the backup stays ended, also where Redis has no copy of it.

const test = suite('what was ended after the backup');
let world: World;
let api: Started;
test.before(async () => {
  world = await makeWorld();
  ({ api } = world);
});
test.after(() => world?.stop());

test('JWTs and link tokens that were revoked after the backup stay invalid, and the audit log says what the command did', async () => {
  const { id: workspaceId } = await made('/api/v1/workspace', { name: 'w' }, 'workspace');
  const { id: goneId } = await made('/api/v1/workspace', { name: 'gone' }, 'workspace');
  const key = await made('/api/v1/api-key', { name: 'k', workspaceId }, 'apiKey');
  const scope = await made(`/api/v1/workspace/${workspaceId}/scope`, { name: 's', representation: 's' }, 'scope');
  const token = await made('/api/v1/access-token', { name: 't', permissions: ['key:read'] }, 'accessToken');
  const limits = { totalCredits: '10', allowOverages: true, spendCap: '20' };
  const billing = await made('/api/v1/customer-billing', { workspaceId, externalMeterId: 'm', ...limits }, 'billing');
  const [revoked, unrevoked] = [await newJwt(), await newJwt()];
  const links = [await newLink(workspaceId), await newLink(workspaceId)];
  const other = await world.newTeam();
  const ofOther = await newJwt(other.token);
  const noJwts = await world.newTeam();
  await whileStopped(() => backUp(world));

  await must(200, call('post', '/api/v1/jwt/revoke', { jwt: revoked }));
  await must(200, call('delete', `/api/v1/link-token/${links[0]!.token}`));
  await must(200, call('patch', `/api/v1/workspace/${workspaceId}/api-key/${key.id}`, { enabled: false }));
  await must(200, call('delete', `/api/v1/workspace/${workspaceId}/scope/${scope.id}`));
  await must(200, call('delete', `/api/v1/access-token/${token.id}`));
  await must(200, call('delete', `/api/v1/workspace/${goneId}`));
  await must(200, call('patch', `/api/v1/customer-billing/${billing.id}`, { spendCap: '15' }));
  await whileStopped(() => restore(world));
  assert.is(await statusOf(revoked), 'VALID', 'the backup takes the revocation back');

  const asApi = new URL(process.env.TEST_API_POSTGRES_URL!);
  asApi.pathname = new URL(world.env.DATABASE_URL!).pathname;
  const { stderr } = await runRestored(world, asApi.href).then(
    () => ({ stderr: 'it went on' }),
    (error: unknown) => error as { stderr: string },
  );
  assert.match(stderr, /^restored: it needs the rights of the schemas' owner: name that user in DATABASE_URL$/m);
  assert.is(await statusOf(unrevoked), 'VALID', 'and it ended nothing');

  const stdout = await runRestored(world);
  assert.match(stdout, new RegExp(`^ended: 2 signing keys and 2 link tokens of ${world.team.id}$`, 'm'));
  assert.match(stdout, new RegExp(`^ended: 2 signing keys and 0 link tokens of ${other.id}$`, 'm'));
  assert.not.ok(stdout.includes(noJwts.id), stdout);
  assert.match(stdout, /^ended in all: 4 signing keys and 2 link tokens; /m);
  for (const jwt of [revoked, unrevoked]) assert.is(await statusOf(jwt), 'INVALID');
  assert.is(await statusOf(ofOther, other.token), 'INVALID');
  for (const { token } of links)
    assert.is((await must(200, call('get', `/api/v1/link-token/${token}`))).body.valid, false);

  const lines = await world.sql<{ resource: string; resourceId: string; teamId: string }[]>`
    select resource, resource_id, team_id from audit_log where operation = 'npm run restored' and token_id is null`;
  const found = lines
    .filter(({ teamId }) => teamId === world.team.id)
    .map(({ resource, resourceId }) => [resource, resourceId]);
  const kids = found.filter(([resource]) => resource === 'signing_key');
  assert.is(kids.length, 2);
  assert.equal(
    new Set(found.filter(([resource]) => resource !== 'signing_key').map(([resource, id]) => `${resource} ${id}`)),
    new Set([
      `access_token ${token.id}`,
      `api_key ${key.id}`,
      `billing ${billing.id}`,
      ...links.map(({ id }) => `link_token ${id}`),
      `scope ${scope.id}`,
      `workspace ${goneId}`,
    ]),
  );
  assert.is(lines.filter(({ teamId }) => teamId === other.id).length, 2);
  assert.is(lines.length, found.length + 2);
  await eventually('every line is chained', async () => {
    const [waiting] = await world.sql`select from audit_unchained`;
    return !waiting;
  });

  // Teams sign again, with new keys; the command run once more ends those too, and nothing twice.
  await eventually('the api takes changes again', async () => (await fetch(`${api.url}/readyz`)).ok);
  const later = await newJwt();
  assert.is(await statusOf(later), 'VALID');
  assert.match(await runRestored(world), /^ended in all: 2 signing keys and 0 link tokens; /m);
});

test.run();

function call(...[method, path, ...rest]: Parameters<World['call']>) {
  return world.call(method, api.url + path, ...rest);
}

/** Does something to Postgres while no api runs; its changes are in force by then. */
async function whileStopped(work: () => Promise<void>): Promise<void> {
  await eventually('changes are in force', async () => {
    const [waiting] = await world.sql`select from changes where applied_at is null`;
    return !waiting;
  });
  await api.stop();
  await work();
  api = await world.start('api');
}

async function made(path: string, body: object, field: string, token = world.team.token) {
  const answer = await must(201, call('post', path, body, { token }));
  return answer.body[field] as { id: string; token: string };
}

async function newJwt(token = world.team.token): Promise<string> {
  return (await must(201, call('post', '/api/v1/jwt', { payload: {} }, { token }))).body.jwt as string;
}

function newLink(workspaceId: string) {
  return made('/api/v1/link-token', { workspaceId, customerId: 'c' }, 'linkToken');
}

async function statusOf(jwt: string, token = world.team.token): Promise<string | undefined> {
  return (await call('post', '/api/v1/jwt/verify', { jwt }, { token })).body?.status as string | undefined;
}
