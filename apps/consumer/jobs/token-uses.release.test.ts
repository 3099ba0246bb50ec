import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { eventually, joinWorld } from '../../../tests/helpers/world.ts';

test('the list of access tokens shows when each was last used, on verify as on the api', async () => {
  const world = await joinWorld();
  const newToken = async (permission: string) =>
    (await must(201, world.call('post', '/api/v1/access-token', { name: 'n', permissions: [permission] }))).body
      .accessToken;
  const [gateway, reader, unused] = [
    await newToken('key:verify'),
    await newToken('workspace:read'),
    await newToken('key:read'),
  ];
  const before = Date.now();
  await must(200, world.call('post', world.verify.url + VERIFY_PATH, { key: 'k' }, { token: gateway.token }));
  await must(200, world.call('get', '/api/v1/workspace', undefined, { token: reader.token }));
  const listed = async ({ id }: { id: string }) =>
    (await must(200, world.call('get', '/api/v1/access-token'))).body.accessTokens.find(
      (one: { id: string }) => one.id === id,
    );
  for (const token of [gateway, reader]) {
    const at = Date.parse(await eventually('its use is listed', async () => (await listed(token)).lastUsedAt));
    assert.ok(at >= before && at <= Date.now());
  }
  assert.not.ok('lastUsedAt' in (await listed(unused)));
});
