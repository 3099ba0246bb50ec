import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../shared/contract/caller.ts';
import { readTeam } from '../commands/tool.ts';
import { urlOfApi } from './helpers/own-api.ts';
import { callsOf, joinWorld } from './helpers/calls.ts';

// The operator's tokens: how a team gets its first token, and another where it lost all. Revoking is in routes/access-token.

const world = await joinWorld();

test('the command creates the team and its first token, with every permission, in force at once; and another one later', async () => {
  const team = `team of ${world.team.id}`;
  const [first, second] = [run('--team', team).stdout.trim(), run('--team', team).stdout.trim()];
  for (const token of [first, second]) await callsOf(world, token).make('/api/v1/workspace', { name: 'w' });
  const accessTokens = await callsOf(world, second).read('/api/v1/access-token');
  assert.is(accessTokens.length, 2, 'both are of the same team');
  for (const one of accessTokens)
    assert.equal([one.name, one.permissions.toSorted()], ['operator', [...permissions].toSorted()]);
  for (const line of await callsOf(world, first).read('/api/v1/audit-log?resource=access_token')) {
    assert.equal([line.operation, line.actor], ['npm run token', 'operator']);
    assert.not.ok('tokenId' in line || 'address' in line || 'userAgent' in line, 'nobody with a token asked for it');
  }
});

test('a wrong command line gets one line that says what is right', () => {
  for (const args of [[], ['--team='], ['--name', 'x'], ['--team', 'x'.repeat(129)]])
    assert.is(readTeam(args), undefined);
  const { status, stderr, stdout } = run('--name', 'x');
  assert.equal([status, stdout], [2, '']);
  assert.match(stderr, /^name the team, in at most 128 characters: .*\n$/);
});

/** Runs `npm run token`, with the same rights as beside the api. */
function run(...args: string[]) {
  const env = { ...world.env, DATABASE_URL: urlOfApi(world) };
  return spawnSync(process.execPath, ['apps/api/commands/token.ts', ...args], { env, encoding: 'utf8' });
}
