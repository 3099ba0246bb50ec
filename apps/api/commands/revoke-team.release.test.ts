import { rejects } from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../shared/contract/caller.ts';
import { eventually } from '../../../tests/helpers/world.ts';
import { callsOf, columns, makeWorld, must } from '../tests/helpers/calls.ts';
import { urlOfApi } from '../tests/helpers/own-api.ts';

const execute = promisify(execFile);
const world = await makeWorld(['verify']);

test('everything that the team had is refused, each with a line in the audit log; others and later tokens go on', async () => {
  const team = await makeTeam(3);
  const others = await makeTeam(1);
  const { stdout } = await revoke(team.id);
  assert.match(stdout, /: 3 access tokens, 3 API keys, 1 link tokens\n$/);
  assert.is((await mint(team.token)).status, 401, 'whatever the cache of callers says');
  for (const token of [team.token, team.child])
    await eventually('refused', async () => (await verify(token, '')) === 401);
  const token = await world.newToken(team.id, permissions);
  const later = callsOf(world, token);
  for (const key of team.keys) assert.is(await verify(token, key), 'DISABLED');
  assert.is(await later.post('/api/v1/jwt/verify', { jwt: team.jwt }), 'INVALID');
  const webhook = await later.read(`/api/v1/webhook/${team.webhook}`);
  assert.equal([webhook.enabled, webhook.disabledReason], [false, 'REQUESTED']);
  assert.is(await later.read(`/api/v1/link-token/${team.link}`), false, 'it is not valid');
  const audited = await world.sql<{ resource: string; n: number }[]>`
    select resource, count(*)::int as n from audit_log
    where team_id = ${team.id} and operation = 'npm run revoke-team' and token_id is null group by resource order by resource`;
  const revoked = { access_token: 3, api_key: 3, link_token: 1, payment_source: 1, signing_key: 2, webhook: 1 };
  assert.equal(Object.fromEntries(columns(audited, 'resource', 'n')), revoked);
  assert.is(await verify(others.token, others.keys[0]!), 'VALID');
  assert.is(await callsOf(world, others.token).post('/api/v1/jwt/verify', { jwt: others.jwt }), 'VALID');
  // The team begins anew.
  await later.make('/api/v1/jwt', { payload: {} });
});

test('a command that is killed in the middle is finished by the next one', async () => {
  const team = await makeTeam(2);
  const token = await world.newToken((await world.newTeam()).id, permissions);
  const before = await world.newToken(team.id, permissions);
  await world.sql.begin(async (tx) => {
    await tx`select from api_keys where team_id = ${team.id} for update`;
    const command = revoke(team.id);
    await eventually('it waits for a key', async () => {
      const [left] = await world.sql`select from access_tokens where team_id = ${team.id} and revoked_at is null`;
      return !left;
    });
    command.child.kill('SIGKILL');
    await rejects(command);
  });
  // What could be ended at once was: no token of the team writes.
  for (const one of [team.token, team.child, before]) assert.is((await mint(one)).status, 401);
  assert.match((await revoke(team.id)).stdout, /: 0 access tokens, 2 API keys, 1 link tokens\n$/);
  await callsOf(world, token).read('/api/v1/workspace');
  const [lines] = await world.sql<[{ n: number }]>`
      select count(*)::int as n from audit_log where team_id = ${team.id} and operation = 'npm run revoke-team' and resource = 'api_key'`;
  assert.is(lines.n, 2, 'none twice');
});

async function makeTeam(keyCount: number) {
  const team = await world.newTeam();
  const { make } = callsOf(world, team.token);
  const { id: workspaceId } = await make('/api/v1/workspace', { name: 'w' });
  const keys: string[] = [];
  for (let i = 0; i < keyCount; i++) keys.push((await make('/api/v1/api-key', { name: 'k', workspaceId })).key);
  const child: string = (await must(201, mint(team.token))).body.accessToken.token;
  await must(201, mint(child));
  const link: string = (await make('/api/v1/link-token', { workspaceId, customerId: 'c' })).token;
  const jwt: string = await make('/api/v1/jwt', { payload: { role: 'admin' } });
  const hook = { url: 'https://hooks.example.com', events: ['key.created'] };
  const webhook: string = (await make('/api/v1/webhook', hook)).id;
  const rules = [{ event: 'invoice.paid', currency: 'usd', creditsPerUnit: '1' }];
  await make('/api/v1/payment-source', { workspaceId, kind: 'stripe', name: 's', rules, secret: 'whsec_1' });
  return { ...team, keys, child, link, jwt, webhook };
}

function mint(token: string) {
  return world.call('post', '/api/v1/access-token', { name: 't', permissions: [...permissions] }, { token });
}

async function verify(token: string, key: string): Promise<string | number> {
  const url = `${world.verify!.url}/api/v1/api-key/verify`;
  const { status, body } = await world.call('post', url, { key: key || 'none' }, { token });
  return status === 200 ? body.status : status;
}

/** Runs the command with the same rights as beside the api. */
function revoke(team: string) {
  const env = { ...process.env, ...world.env, DATABASE_URL: urlOfApi(world) };
  return execute(process.execPath, ['apps/api/commands/revoke-team.ts', '--team', team], { env });
}
