import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';

const PATH = '/api/v1/workspace';
const world = await joinWorld();

test('a workspace is created, read, listed and changed', async () => {
  const { id: teamId, token } = await world.newTeam();
  const call = (method: string, path: string, body?: object) => world.call(method, path, body, { token });
  const { workspace } = (await must(201, call('post', PATH, { name: 'Acme' }))).body;
  const { id, createdAt } = workspace;
  assert.match(id, /^ws_[0-9a-z]{26}$/);
  const fields = { id, name: 'Acme', teamId, defaultAllowedIPs: [], keepClientAddresses: true, timezone: 'UTC' };
  assert.equal(workspace, { ...fields, createdAt, updatedAt: createdAt });

  const path = `${PATH}/${id}`;
  assert.equal((await call('get', path)).body, { workspace });
  const changes = { defaultKeyPrefix: 'acme', defaultAllowedIPs: ['10.0.0.0/8'], timezone: 'Asia/Kathmandu' };
  const more = { defaultRateLimitPerSecond: 5, defaultExpiration: 60 };
  const changed = (await must(200, call('patch', path, { ...changes, ...more }))).body.workspace;
  assert.equal(changed, { ...workspace, ...changes, ...more, updatedAt: changed.updatedAt });
  const cleared = (await must(200, call('patch', path, { defaultKeyPrefix: null, defaultAllowedIPs: null }))).body
    .workspace;
  const { defaultKeyPrefix: _, ...kept } = changed;
  assert.equal(cleared, { ...kept, defaultAllowedIPs: [], updatedAt: cleared.updatedAt });
  assert.equal((await call('get', PATH)).body.workspaces, [cleared]);
});

test('a time zone must be one that is known', async () => {
  const id = await world.newWorkspace(world.team.id);
  for (const timezone of ['Mars/Base', '+02:00', 'UTC; drop'])
    for (const asked of [
      world.call('patch', `${PATH}/${id}`, { timezone }),
      world.call('post', PATH, { name: 'w', timezone }),
    ])
      assert.is((await must(400, asked)).body.error.details[0].path, '/timezone', timezone);
});

test('a kept refusal is answered again, with the request id of the repetition', async () => {
  const body = { name: 'k', workspaceId: 'ws_01h455vb4pex5vsknk084sn02q', expiresAt: 1 };
  const create = (id: string) =>
    world.call('post', '/api/v1/api-key', body, { headers: { 'Idempotency-Key': 'refused', 'X-Request-Id': id } });
  const [first, again] = [await create('first'), await create('again')];
  assert.is(first.body.error.requestId, 'first');
  assert.equal(again.body.error, { ...first.body.error, requestId: 'again' });
  assert.equal([again.status, again.headers.get('x-request-id')], [403, 'again']);
});

test('a name that people see is not blank and hides nothing, and letters, emoji and joined scripts are taken', async () => {
  const status = async (name: string) => (await world.call('post', '/api/v1/workspace', { name })).status;
  const hidden = ' |\u3000 |Ac\u200bme|\u202eemcA|Acme\u2066|Ac\u200dme|\ufeffAcme|\u00ad|\u200d|\u3164';
  for (const name of hidden.split('|')) assert.is(await status(name), 400, JSON.stringify(name));
  const seen = 'A| Acme GmbH & Co. |naïve 日本|👩\u200d💻 lab|❤️\u200d🔥|می\u200cخواهم|שלום|क्\u200dष|$';
  for (const name of seen.split('|')) assert.is(await status(name), 201, JSON.stringify(name));
});
