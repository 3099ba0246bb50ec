import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { permissions } from '../../../../shared/contract/caller.ts';
import { callsOf, joinWorld, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/access-token';
const HERE = '127.0.0.1';
// Tests come from a trusted proxy: X-Forwarded-For says from where.
const world = await joinWorld();
const env = { TRUSTED_PROXIES: '127.0.0.1,::1' };
const [api, verify] = [(await world.start('api', env)).url, (await world.start('verify', env)).url];

test('a token with a list works from its addresses alone, on api and verify, whoever asked before', async () => {
  const { token } = await mint({ allowedIPs: ['203.0.113.0/24', '2001:db8::/32'] });
  const uses = {
    'api, from Postgres': (from: string) => call('get', PATH, undefined, token, from),
    'api, writing': (from: string) => call('post', '/api/v1/workspace', { name: 'w' }, token, from),
    'api, from Redis': (from: string) => call('post', '/api/v1/api-key/verify', { key: 'none' }, token, from),
    verify: (from: string) => call('post', `${verify}/api/v1/api-key/verify`, { key: 'none' }, token, from),
  };
  for (const [name, use] of Object.entries(uses)) {
    for (const from of ['203.0.113.9', '2001:db8::7', '::ffff:203.0.113.1']) {
      const { status, text } = await use(from);
      assert.ok(status < 300, `${name} from ${from}: ${text}`);
      await refused(40306, use('198.51.100.1'), name);
    }
    // A header that says nothing readable proves no address.
    await refused(40306, use('unknown'), name);
  }
});

test("a gateway's token is held by the gateway: its own address counts, not that of its client", async () => {
  const gateway = (token: string) =>
    world.call('get', `${verify}/gateway/plain/usage=0/`, undefined, {
      token: null,
      headers: { 'X-Keytally-Token': token, 'X-Api-Key': 'none', 'X-Forwarded-For': '203.0.113.9' },
    });
  const here = (await mint({ allowedIPs: [HERE] })).token;
  assert.is((await gateway(here)).status, 401, 'the key is unknown, the token is not');
  const elsewhere = (await mint({ allowedIPs: ['203.0.113.9'] })).token;
  assert.is((await gateway(elsewhere)).status, 500);
});

test('a token gives its addresses on, or some of them, and never more', async () => {
  const parent = await mint({ allowedIPs: ['203.0.113.0/24', '2001:db8::/32'] });
  const from = '203.0.113.9';
  const make = (more: object) =>
    call('post', PATH, { name: 'child', permissions: ['key:read'], ...more }, parent.token, from);
  assert.equal((await make({})).body.accessToken.allowedIPs, ['203.0.113.0/24', '2001:db8::/32'], 'inherited');
  assert.equal((await make({ allowedIPs: ['203.0.113.128/25'] })).body.accessToken.allowedIPs, ['203.0.113.128/25']);
  for (const allowedIPs of [[], ['203.0.112.0/23'], ['203.0.113.1', '198.51.100.1'], ['0.0.0.0/0'], ['::/0']])
    await refused(40303, make({ allowedIPs }), allowedIPs.join());
  assert.not.ok('allowedIPs' in (await mint({ allowedIPs: [] })), 'an unlimited token may make an unlimited one');
});

function call(method: string, path: string, body: unknown, token: string, from: string) {
  const url = path.startsWith('http') ? path : api + path;
  return world.call(method, url, body, { token, headers: { 'X-Forwarded-For': from } });
}

function mint(more: object): Promise<{ token: string; allowedIPs?: string[] }> {
  return callsOf(world).make(PATH, { name: 'limited', permissions: [...permissions], ...more });
}
