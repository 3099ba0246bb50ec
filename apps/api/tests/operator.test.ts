import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../shared/contract/caller.ts';
import { eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';
import { must } from '../../../tests/helpers/customers.ts';

// The operator's tokens: how a team gets its first token, replaces it, and revokes a lost one.
let world: World;
const test = suite('tokens of the operator');
test.before(async () => {
  world = await makeWorld();
});
test.after(() => world?.stop());

test('bootstrap: the command creates the team and its first token, with every permission, in force at once', async () => {
  const token = await tokenOf('first');
  await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, { token }));
  const { accessTokens } = (await must(200, list(token))).body;
  assert.equal(
    accessTokens.map((one: { name: string }) => one.name),
    ['operator'],
  );
  assert.equal(accessTokens[0].permissions.toSorted(), [...permissions].toSorted());
  const { auditLog } = (await must(200, world.call('get', '/api/v1/audit-log', undefined, { token }))).body;
  assert.is(auditLog[0].operation, 'npm run token');
  assert.is(auditLog[0].resourceId, accessTokens[0].id);
  assert.not.ok('tokenId' in auditLog[0], 'nobody with a token asked for it');
  assert.is(auditLog[0].actor, 'operator');
  assert.not.ok('address' in auditLog[0] || 'userAgent' in auditLog[0]);
});

test('rotation: the old token creates a new one, which revokes the old; one of them is always valid', async () => {
  const old = await tokenOf('rotating');
  const { id } = (await must(200, list(old))).body.accessTokens[0];
  const body = { name: 'operator 2', permissions: [...permissions] };
  const { token } = (await must(201, world.call('post', '/api/v1/access-token', body, { token: old }))).body
    .accessToken;
  await must(200, list(old));
  await must(200, world.call('delete', `/api/v1/access-token/${id}?descendants=false`, undefined, { token }));
  await refusedSoon(old);
  await must(200, list(token));
});

test('loss: the command gives the team another token, which finds the lost one and revokes it', async () => {
  const lost = await tokenOf('losing');
  const found = await tokenOf('losing');
  assert.is.not(found, lost);
  const { accessTokens } = (await must(200, list(found))).body;
  assert.is(accessTokens.length, 2, 'of the same team');
  const mask = `${lost.slice(0, 7)}****${lost.slice(-4)}`;
  const { id } = accessTokens.find((one: { maskedToken: string }) => one.maskedToken === mask);
  await must(200, world.call('delete', `/api/v1/access-token/${id}`, undefined, { token: found }));
  await refusedSoon(lost);
});

test.run();

const list = (token: string) => world.call('get', '/api/v1/access-token', undefined, { token });

/** What `npm run token` prints, run with the same rights as beside the api. */
async function tokenOf(team: string): Promise<string> {
  const url = new URL(process.env.TEST_API_POSTGRES_URL!);
  url.pathname = new URL(world.env.DATABASE_URL!).pathname;
  const env = { ...world.env, DATABASE_URL: url.href };
  const script = new URL('../commands/token.ts', import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(process.execPath, [script, '--team', team], { env });
  return stdout.trim();
}

async function refusedSoon(token: string): Promise<void> {
  await eventually('it is refused', async () => (await list(token)).body.error?.code === 40102, 1_000);
}
