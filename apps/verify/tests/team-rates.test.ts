import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { changeQuotas } from '../../api/resources/quotas.ts';
import { applyChanges } from '../../api/sync/sync.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeWorld, request, type Answer } from '../../../tests/helpers/world.ts';

// Of so many calls at once some are above two a second, however slow the machine is.
const AT_ONCE = 100;
const world = await makeWorld(['verify'], { QUOTA_VERIFY_PER_SECOND: '2', QUOTA_API_PER_SECOND: '2' });

test('calls beyond the quota get 429 on verify and on the api, of all tokens of the team together; others pass', async () => {
  const management = (token: string) => world.call('get', '/api/v1/workspace?limit=1', undefined, { token });
  for (const call of [
    (token: string) => verify(token, world.verify!.url),
    (token: string) => verify(token, world.api.url),
    management,
  ]) {
    const team = await world.newTeam();
    const tokens = [team.token, await world.newToken(team.id, ['key:verify', 'workspace:read'])];
    const answers = await atOnce((i) => call(tokens[i % 2]!));
    const refused = answers.filter(({ status }) => status === 429);
    assert.ok(refused.length > 0 && refused.length < AT_ONCE, `${refused.length} are refused`);
    for (const { body, headers } of refused) assert.equal([body.error.code, headers.get('retry-after')], [42920, '1']);
    assert.is((await call((await world.newTeam()).token)).status, 200, 'another team');
  }
});

test('a stranger takes nothing of a share: only authenticated requests count', async () => {
  const { token } = await world.newTeam();
  assert.ok((await atOnce((i) => verify(`${token}${i}`))).every(({ status }) => status === 401));
  assert.is((await verify(token)).status, 200);
});

test('a gateway of a team beyond its quota gets 503: its end clients are not to blame', async () => {
  const { token } = await world.newTeam();
  const headers = { 'X-Keytally-Token': token };
  const url = `${world.verify!.url}/gateway/nginx/-/x`;
  const answers = await atOnce(() => request(url, 'get', { token: 'key_of_the_end_client', headers }));
  const refused = answers.filter(({ status }) => status !== 401);
  assert.ok(refused.length > 0 && refused.length < AT_ONCE);
  for (const { status, body, headers } of refused)
    assert.equal([status, body.error.code, headers.get('retry-after')], [503, 50311, '1']);
});

test("a team's own limit is in force for its tokens on verify once it is changed", async () => {
  const { id, token } = await world.newTeam();
  const changes = await world.sql.begin((tx) => changeQuotas(tx, id, [['verify_per_second', 100_000]]));
  await applyChanges(world.sql, world.redis, changes);
  // One that has not read the token yet: others learn of it within a second.
  const { url } = await world.start('verify');
  assert.ok((await atOnce(() => verify(token, url))).every(({ status }) => status === 200));
});

function atOnce(call: (i: number) => Promise<Answer>): Promise<Answer[]> {
  return Promise.all(Array.from({ length: AT_ONCE }, (_, i) => call(i)));
}

function verify(token: string, url = world.verify!.url): Promise<Answer> {
  return request(url + VERIFY_PATH, 'post', { token, body: { key: 'key_none' } });
}
