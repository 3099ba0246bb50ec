import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;

const test = suite('limits of keys, workspaces and billing records');
test.before(async () => {
  world = await joinWorld();
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
});
test.after(() => world?.stop());

const daily = { name: 'daily', unit: 'requests', limit: 10, per: 'day', timezone: 'Europe/Berlin' };
const spend = { name: 'spend', unit: 'credits', limit: '25.5', per: 'hour', usageName: 'tokens', shadow: true };

const ONE_OF = 'must be equal to one of the allowed values';
const REQUESTS = 'must be a whole number from 1 to 9000000000';
const CREDITS = 'must be decimal text above 0, at most 9000000000, with at most six decimals';
const ZONE = 'must be the IANA name of a time zone, such as Europe/Berlin';
const wrong: [what: string, limits: object[], path: string, message: string][] = [
  ['more than four', [1, 2, 3, 4, 5].map((i) => ({ ...daily, name: `${i}` })), '', 'must NOT have more than 4 items'],
  ['an unknown field', [{ ...daily, zone: 'UTC' }], '/0/zone', 'is not a known field'],
  ['an unknown unit', [{ ...daily, unit: 'tokens' }], '/0/unit', ONE_OF],
  ['an unknown window', [{ ...daily, per: 'year' }], '/0/per', ONE_OF],
  ['no name', [{ ...daily, name: undefined }], '/0/name', 'must be given'],
  ['one name twice', [daily, { ...spend, name: 'daily' }], '/1/name', 'is the name of another limit of the list'],
  [
    'the reserved name',
    [{ ...daily, name: 'rateLimitPerSecond' }],
    '/0/name',
    "is the name of the key's own rate limit; choose another",
  ],
  ['requests as text', [{ ...daily, limit: '10' }], '/0/limit', REQUESTS],
  ['no requests', [{ ...daily, limit: 0 }], '/0/limit', REQUESTS],
  ['half a request', [{ ...daily, limit: 0.5 }], '/0/limit', 'must be integer,string'],
  ['credits as a number', [{ ...spend, limit: 25 }], '/0/limit', CREDITS],
  ['no credits', [{ ...spend, limit: '0' }], '/0/limit', CREDITS],
  ['an unknown zone', [{ ...daily, timezone: 'Europe/Atlantis' }], '/0/timezone', ZONE],
  ['an offset as a zone', [{ ...daily, timezone: '+05:45' }], '/0/timezone', ZONE],
  ['a zone of an hour', [{ ...spend, timezone: 'UTC' }], '/0/timezone', 'is for day, week and month; a hour slides'],
];

test('wrong limits are refused with a 400 that names the field, wherever they are set', async () => {
  for (const [what, limits, path, message] of wrong) {
    const key = { name: 'k', workspaceId, limits };
    for (const [field, answer] of [
      ['/limits', world.call('post', '/api/v1/api-key', key)],
      ['/defaultLimits', world.call('post', '/api/v1/workspace', { name: 'w', defaultLimits: limits })],
      ['/limits', world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId: 'm', limits })],
    ] as const)
      assert.equal((await must(400, answer)).body.error.details[0], { path: field + path, message }, what);
    const imported = { ...key, key: `imported-${what}-0123456789`.replaceAll(' ', '-') };
    const { results } = (await must(200, world.call('post', '/api/v1/api-key/import', { keys: [imported] }))).body;
    assert.equal(results[0].error.details[0], { path: `/limits${path}`, message }, what);
  }
});

test('limits are answered as they were set, changed by PATCH, cleared by null, and in the audit log', async () => {
  const limits = [daily, spend];
  const key = (await must(201, world.call('post', '/api/v1/api-key', { name: 'k', workspaceId, limits }))).body.apiKey;
  assert.equal(key.limits, limits);
  const path = `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
  assert.equal((await must(200, world.call('patch', path, { limits: [spend] }))).body.apiKey.limits, [spend]);
  assert.equal((await must(200, world.call('get', path))).body.apiKey.limits, [spend]);
  assert.is((await must(200, world.call('patch', path, { limits: null }))).body.apiKey.limits, undefined);

  const made = { name: 'w', defaultLimits: limits };
  const workspace = (await must(201, world.call('post', '/api/v1/workspace', made))).body.workspace;
  assert.equal(workspace.defaultLimits, limits);
  const ofWorkspace = `/api/v1/workspace/${workspace.id}`;
  const cleared = await must(200, world.call('patch', ofWorkspace, { defaultLimits: null }));
  assert.is(cleared.body.workspace.defaultLimits, undefined);

  const body = { workspaceId, externalMeterId: 'limited', limits };
  const { billing } = (await must(201, world.call('post', '/api/v1/customer-billing', body))).body;
  assert.equal(billing.limits, limits);
  const ofRecord = `/api/v1/customer-billing/${billing.id}`;
  assert.equal((await must(200, world.call('patch', ofRecord, { limits: [daily] }))).body.billing.limits, [daily]);

  const { text } = await must(200, world.call('get', '/api/v1/audit-log?limit=100'));
  assert.ok(text.includes('"limits"') && text.includes('"defaultLimits"'));

  const keys = [{ name: 'k', workspaceId, key: 'imported-with-limits-0123456789', limits: [daily] }];
  const { results } = (await must(200, world.call('post', '/api/v1/api-key/import', { keys }))).body;
  assert.equal(results[0].apiKey.limits, [daily], 'an imported key has those of its creation');
});

test.run();
