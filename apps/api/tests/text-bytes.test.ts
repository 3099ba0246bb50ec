import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../tests/helpers/customers.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';

const world = await makeWorld();

test('a route and a usage name are limited in bytes too, by an error that names the limit', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  const { apiKey } = (await must(201, world.call('post', '/api/v1/api-key', { name: 'k', workspaceId: workspace.id })))
    .body;
  const verify = (more: object) => world.call('post', '/api/v1/api-key/verify', { key: apiKey.key, ...more });
  // Four bytes each.
  const text = (bytes: number) => '𝕏'.repeat(bytes / 4);
  for (const more of [{ route: text(1_024) }, { billing: { usageName: text(256) } }, { route: 'x'.repeat(1_024) }])
    assert.is((await must(200, verify(more))).body.status, 'VALID');
  for (const [more, path, most] of [
    [{ route: text(1_028) }, '/route', 1_024],
    [{ billing: { usageName: text(260) } }, '/billing/usageName', 256],
  ] as const) {
    const { body } = await must(400, verify(more));
    assert.equal(body.error.details, [{ path, message: `must NOT have more than ${most} bytes in UTF-8` }]);
  }

  const record = { workspaceId: workspace.id, externalMeterId: 'm', totalCredits: '10' };
  const { billing } = (await must(201, world.call('post', '/api/v1/customer-billing', record))).body;
  const path = `/api/v1/customer-billing/${billing.id}/adjustment`;
  const adjust = (bytes: number) => {
    const headers = { 'Idempotency-Key': `of ${bytes}` };
    return world.call('post', path, { amount: '1', reason: 'r', usageName: text(bytes) }, { headers });
  };
  await must(201, adjust(256));
  assert.is((await must(400, adjust(260))).body.error.details[0].path, '/usageName');
});
