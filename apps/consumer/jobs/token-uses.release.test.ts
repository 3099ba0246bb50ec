import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { eventually } from '../../../tests/helpers/world.ts';
import { callsOf, joinWorld } from '../../api/tests/helpers/calls.ts';

test('the list of access tokens shows when each was last used, on verify as on the api', async () => {
  const world = await joinWorld();
  const { make, read } = callsOf(world);
  const newToken = (permission: string) => make('/api/v1/access-token', { name: 'n', permissions: [permission] });
  const [gateway, reader] = [await newToken('key:verify'), await newToken('workspace:read')];
  const unused = await newToken('key:read');
  const before = Date.now();
  await callsOf(world, gateway.token).ask('post', world.verify.url + VERIFY_PATH, { key: 'k' });
  await callsOf(world, reader.token).read('/api/v1/workspace');
  const usedAt = async ({ id }: { id: string }) =>
    (await read('/api/v1/access-token')).find((one: { id: string }) => one.id === id).lastUsedAt;
  for (const token of [gateway, reader]) {
    const at = Date.parse(await eventually('its use is listed', () => usedAt(token)));
    assert.ok(at >= before && at <= Date.now());
  }
  assert.is(await usedAt(unused), undefined);
});
