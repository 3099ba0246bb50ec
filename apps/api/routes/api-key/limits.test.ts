import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must, newWorkspace } from '../../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';

const world = await joinWorld();
const workspaceId = await newWorkspace(world);

const daily = { name: 'daily', unit: 'requests', limit: 10, per: 'day', timezone: 'Europe/Berlin' };
const spend = { name: 'spend', unit: 'credits', limit: '25.5', per: 'hour', usageName: 'tokens', shadow: true };
const inDays = { ...daily, name: 'ten days', per: '10 days' };
const yearly = { ...daily, name: 'yearly', per: 'year' };
const soon = { ...spend, name: 'soon', per: '5 minutes' };
const wrongWindows = ['1 minute', '60 seconds', '24 hours', '32 days', '2 weeks', '2 years', '05 days', '5minutes', 5];
const imported = async (key: string, limits: readonly object[]) => {
  const keys = [{ name: 'k', workspaceId, key: `imported-${key}-0123456789`, allowWeak: true, limits }];
  return (await must(200, world.call('post', '/api/v1/api-key/import', { keys }))).body.results[0];
};

test('wrong limits are refused with a 400 that names the field, wherever they are set', async () => {
  for (const [limits, path] of [
    [[daily, { ...spend, name: 'daily' }], '/1/name'],
    [[{ ...daily, name: 'rateLimitPerSecond' }], '/0/name'],
    [[{ ...daily, limit: '10' }], '/0/limit'],
    [[{ ...daily, limit: 0 }], '/0/limit'],
    [[{ ...spend, limit: 25 }], '/0/limit'],
    [[{ ...spend, limit: '0' }], '/0/limit'],
    [[{ ...daily, timezone: 'Europe/Atlantis' }], '/0/timezone'],
    [[{ ...daily, timezone: '+05:45' }], '/0/timezone'],
    [[{ ...spend, timezone: 'UTC' }], '/0/timezone'],
    [[{ ...spend, per: '5 minutes', timezone: 'UTC' }], '/0/timezone'],
    ...wrongWindows.map((per) => [[{ ...daily, per }], '/0/per'] as const),
  ] as const) {
    for (const [field, answer] of [
      ['/limits', world.call('post', '/api/v1/api-key', { name: 'k', workspaceId, limits })],
      ['/defaultLimits', world.call('post', '/api/v1/workspace', { name: 'w', defaultLimits: limits })],
      ['/limits', world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId: 'm', limits })],
    ] as const)
      assert.is((await must(400, answer)).body.error.details[0].path, field + path);
    assert.is((await imported('wrong', limits)).error.details[0].path, `/limits${path}`);
  }
});

test('limits are answered as they were set, changed by PATCH, and cleared by null', async () => {
  const limits = [inDays, spend, yearly, soon];
  for (const [path, name, body, at] of [
    ['/api/v1/api-key', 'limits', { name: 'k', workspaceId }, `/api/v1/workspace/${workspaceId}/api-key`],
    ['/api/v1/workspace', 'defaultLimits', { name: 'w' }, '/api/v1/workspace'],
    ['/api/v1/customer-billing', 'limits', { workspaceId, externalMeterId: 'l' }, '/api/v1/customer-billing'],
  ] as const) {
    const only = (answer: { body: object }) => Object.values(answer.body)[0];
    const made = only(await must(201, world.call('post', path, { ...body, [name]: limits })));
    assert.equal(made[name], limits);
    const change = async (to: object | null) =>
      only(await must(200, world.call('patch', `${at}/${made.id}`, { [name]: to })));
    assert.equal((await change([spend]))[name], [spend]);
    assert.equal(only(await must(200, world.call('get', `${at}/${made.id}`)))[name], [spend]);
    assert.is((await change(null))[name], undefined);
    const { auditLog } = (await must(200, world.call('get', `/api/v1/audit-log?resourceId=${made.id}`))).body;
    assert.equal(auditLog[1].before[name], limits);
  }
  assert.equal((await imported('right', [daily])).apiKey.limits, [daily], 'an imported key has those of its creation');
});
