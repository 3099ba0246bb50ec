import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { eventually, makeWorld, type World } from '../../../../tests/helpers/world.ts';

let world: World;
let workspaceId: string;

const test = suite('limits of keys, workspaces and billing records');
test.before(async () => {
  world = await makeWorld();
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
});
test.after(() => world?.stop());

const daily = { name: 'daily', unit: 'requests', limit: 10, per: 'day', timezone: 'Europe/Berlin' };
const spend = { name: 'spend', unit: 'credits', limit: '25.5', per: 'hour', usageName: 'tokens', shadow: true };

const wrong: [string, object[], string, string][] = [
  ['more than four', [1, 2, 3, 4, 5].map((i) => ({ ...daily, name: `${i}` })), '', 'must NOT have more than 4 items'],
  ['an unknown field', [{ ...daily, zone: 'UTC' }], '/0/zone', 'is not a known field'],
  ['an unknown unit', [{ ...daily, unit: 'tokens' }], '/0/unit', 'must be equal to one of the allowed values'],
  ['an unknown window', [{ ...daily, per: 'year' }], '/0/per', 'must be equal to one of the allowed values'],
  ['no name', [{ ...daily, name: undefined }], '/0/name', 'must be given'],
  ['one name twice', [daily, { ...spend, name: 'daily' }], '/1/name', 'is the name of another limit of the list'],
  [
    'the reserved name',
    [{ ...daily, name: 'rateLimitPerSecond' }],
    '/0/name',
    "is the name of the key's own rate limit; choose another",
  ],
  ['requests as text', [{ ...daily, limit: '10' }], '/0/limit', 'must be a whole number from 1 to 9000000000'],
  ['no requests', [{ ...daily, limit: 0 }], '/0/limit', 'must be a whole number from 1 to 9000000000'],
  ['half a request', [{ ...daily, limit: 0.5 }], '/0/limit', 'must be integer,string'],
  [
    'credits as a number',
    [{ ...spend, limit: 25 }],
    '/0/limit',
    'must be decimal text above 0, at most 9000000000, with at most six decimals',
  ],
  [
    'no credits',
    [{ ...spend, limit: '0' }],
    '/0/limit',
    'must be decimal text above 0, at most 9000000000, with at most six decimals',
  ],
  [
    'an unknown zone',
    [{ ...daily, timezone: 'Europe/Atlantis' }],
    '/0/timezone',
    'must be the IANA name of a time zone, such as Europe/Berlin',
  ],
  [
    'an offset as a zone',
    [{ ...daily, timezone: '+05:45' }],
    '/0/timezone',
    'must be the IANA name of a time zone, such as Europe/Berlin',
  ],
  ['a zone of an hour', [{ ...spend, timezone: 'UTC' }], '/0/timezone', 'is for day, week and month; a hour slides'],
];

for (const [what, limits, path, message] of wrong) {
  test(`limits with ${what} are refused with a 400 that names the field, wherever they are set`, async () => {
    const key = { name: 'k', workspaceId, limits };
    const answers = [
      await world.call('post', '/api/v1/api-key', key),
      await world.call('post', '/api/v1/workspace', { name: 'w', defaultLimits: limits }),
      await world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId: 'm', limits }),
    ];
    for (const [i, { status, body }] of answers.entries()) {
      assert.is(status, 400);
      const field = i === 1 ? '/defaultLimits' : '/limits';
      assert.equal(body.error.details[0], { path: field + path, message });
    }
    const imported = { ...key, key: `imported-${what}-0123456789`.replaceAll(' ', '-') };
    const { results } = (await must(200, world.call('post', '/api/v1/api-key/import', { keys: [imported] }))).body;
    assert.equal(results[0].error.details[0], { path: `/limits${path}`, message });
  });
}

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

  await eventually('the change of the record in the audit log', async () => {
    const { text } = await must(200, world.call('get', '/api/v1/audit-log?limit=100'));
    return text.includes('"limits"') && text.includes('"defaultLimits"');
  });
});

test('an imported key has the limits of its creation', async () => {
  const keys = [{ name: 'k', workspaceId, key: 'imported-with-limits-0123456789', limits: [daily] }];
  const { results } = (await must(200, world.call('post', '/api/v1/api-key/import', { keys }))).body;
  const path = `/api/v1/workspace/${workspaceId}/api-key/${results[0].apiKey.id}`;
  assert.equal((await must(200, world.call('get', path))).body.apiKey.limits, [daily]);
});

test.run();
