import { randomUUID } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeRecords } from '../../tests/helpers/records.ts';
import { callsOf, column, columns, joinWorld, once, refused } from '../../tests/helpers/calls.ts';

const world = await joinWorld();
const { ask, read, make, change, remove } = callsOf(world);
const records = await makeRecords(world);
const { workspaceId } = records;
const PLAN = `/api/v1/workspace/${workspaceId}/plan`;
const RECORD = '/api/v1/customer-billing';
const limits = [{ name: 'daily', unit: 'requests', limit: 1000, per: 'day' }];
const alerts = [{ name: 'low', when: { usedPercent: 80 } }];
const monthly = { credits: '100', every: 'month', name: 'allowance' };
const toCome = Array(2).fill('PENDING allowance 100');
const trial = { credits: '5', expiresIn: 1_209_600, name: 'trial', priority: 10 };
await make(`/api/v1/workspace/${workspaceId}/scope`, { name: 'Export', representation: 'export' });

test('each change of a plan is a version, which can be read, and a line of the audit log', async () => {
  const made = await make(PLAN, { name: 'free', grants: [{ credits: '5.50' }] });
  const { createdAt, updatedAt, ...rest } = made;
  const grants = [{ credits: '5.5', priority: 50 }];
  assert.equal(rest, { id: made.id, workspaceId, name: 'free', version: 1, applying: false, grants });
  assert.ok(createdAt && updatedAt);
  const second = await change(`${PLAN}/${made.id}`, { name: 'Free', limits, grants: null });
  assert.equal([second.name, second.version, second.limits, second.grants], ['Free', 2, limits, undefined]);
  assert.is((await change(`${PLAN}/${made.id}`, { limits })).version, 2, 'the same again is no version');
  assert.equal((await read(`${PLAN}/${made.id}?version=1`)).grants, grants);
  await refused(40432, ask('get', `${PLAN}/${made.id}?version=3`));
  assert.equal(await read(`${PLAN}/${made.id}`), await change(`${PLAN}/${made.id}`, {}));
  assert.ok((await read(`${PLAN}s`)).some(({ id }: { id: string }) => id === made.id));
  const both = await Promise.all(['8', '9'].map((spendCap) => change(`${PLAN}/${made.id}`, { spendCap })));
  assert.equal(new Set(column(both, 'version')), new Set([3, 4]));
  assert.equal(column(both, 'limits'), [limits, limits]);
  await remove(`${PLAN}/${made.id}`);
  await refused(40432, ask('get', `${PLAN}/${made.id}`));
  const lines = await read(`/api/v1/audit-log?resourceId=${made.id}`);
  assert.equal(columns(lines, 'resource', 'operation').map(String), [
    'plan,POST /api/v1/workspace/{id}/plan',
    ...Array(3).fill('plan,PATCH /api/v1/workspace/{id}/plan/{pid}'),
    'plan,DELETE /api/v1/workspace/{id}/plan/{pid}',
  ]);
});

test('what a plan cannot give is refused by its field', async () => {
  for (const [body, path] of [
    [{ grants: [{ credits: '0' }] }, '/grants/0/credits'],
    [{ schedules: [{ ...monthly, timezone: 'Mars/Olympus' }] }, '/schedules/0/timezone'],
    [{ schedules: [{ ...monthly, anchorAt: -1 }] }, '/schedules/0/anchorAt'],
    [{ schedules: [{ ...monthly, credits: '0' }] }, '/schedules/0/credits'],
    [{ spendCap: '9000000001' }, '/spendCap'],
    [{ limits: [{ ...limits[0]!, limit: '1' }] }, '/limits/0/limit'],
    [{ alerts: [{ name: 'low', when: {} }] }, '/alerts/0/when'],
    [{ keys: { limits: [{ ...limits[0]!, limit: '1' }] } }, '/keys/limits/0/limit'],
  ] as const) {
    const { details } = await refused(40001, ask('post', PLAN, { name: 'p', ...body }), path);
    assert.is(details[0].path, path);
  }
  const keys = { scopes: [{ representation: 'unknown' }] };
  const { details } = await refused(40003, ask('post', PLAN, { name: 'p', keys }));
  assert.is(details[0].path, '/keys/scopes/0/representation');
});

test('a billing record made with a plan has its settings and credits, and what the request says goes before them', async () => {
  const settings = { allowOverages: true, spendCap: '500', limits, alerts };
  const plan = await make(PLAN, { name: 'pro', ...settings, grants: [trial], schedules: [monthly] });
  const billing = await recordWith(plan.id);
  assert.equal([billing.planId, billing.planVersion, billing.availableCredits], [plan.id, 1, '105']);
  assert.equal({ ...billing, ...settings }, billing);
  assert.equal((await records.billing(billing.id)).availableCredits, '105');
  assert.equal(await grantsOf(billing.id), ['ACTIVE trial 5', 'ACTIVE allowance 100', ...toCome]);
  const [first] = await records.grants(billing.id);
  assert.is(first!.expiresAt - first!.beginsAt, 1_209_600_000);
  const other = await recordWith(plan.id, { spendCap: '7', totalCredits: '3' });
  assert.equal([other.spendCap, other.availableCredits, other.allowOverages], ['7', '108', true]);
  await refused(40432, ask('post', RECORD, { workspaceId, externalMeterId: randomUUID(), planId: other.id }));
  await refused(40946, ask('delete', `${PLAN}/${plan.id}`));
});

test('one call makes a customer: the key, and its record with the plan; what the request leaves out, the plan says', async () => {
  const keys = { scopes: [{ representation: 'export', read: true }], rateLimitPerSecond: 7 };
  const plan = await make(PLAN, { name: 'api', grants: [{ credits: '5' }], keys });
  const meter = randomUUID();
  const asked = { name: 'k', workspaceId, externalMeterId: meter, planId: plan.id };
  const headers = once();
  const key = await make('/api/v1/api-key', asked, headers);
  assert.equal(await make('/api/v1/api-key', asked, headers), key);
  assert.equal([key.rateLimitPerSecond, key.scopes[0].representation, key.scopes[0].read], [7, 'export', true]);
  const answer = await records.spend(key.key, '2');
  assert.equal([answer.status, answer.billing.availableCredits], ['VALID', '3']);
  const second = await make('/api/v1/api-key', { ...asked, scopes: [], rateLimitPerSecond: 9 });
  assert.equal([second.rateLimitPerSecond, second.scopes, second.billingId], [9, [], key.billingId]);
  assert.is((await records.billing(key.billingId)).totalCredits, '5', 'a record that is there stays as it is');
  await refused(40001, ask('post', '/api/v1/api-key', { name: 'k', workspaceId, planId: plan.id }));
  const writer = callsOf(world, await world.newToken(world.team.id, ['key:write']));
  await refused(40301, writer.ask('post', '/api/v1/api-key', { ...asked, externalMeterId: randomUUID() }));
});

test('a scope that was deleted is given to no key, nor is another one of its name; its plan can be changed', async () => {
  const SCOPE = `/api/v1/workspace/${workspaceId}/scope`;
  const [gone, kept] = await Promise.all(
    ['gone', 'kept'].map((representation) => make(SCOPE, { name: representation, representation })),
  );
  const scopes = ['gone', 'kept'].map((representation) => ({ representation, read: true }));
  const plan = await make(PLAN, { name: 'scopes', keys: { scopes } });
  assert.equal(column(plan.keys.scopes, 'representation'), ['gone', 'kept']);
  await remove(`${SCOPE}/${gone.id}`);
  await make(SCOPE, { name: 'another', representation: 'gone' });
  await change(`${SCOPE}/${kept.id}`, { representation: 'renamed' });
  assert.is((await change(`${PLAN}/${plan.id}`, { spendCap: '5' })).version, 2);
  const key = await make('/api/v1/api-key', { name: 'k', workspaceId, externalMeterId: randomUUID(), planId: plan.id });
  assert.equal(column(key.scopes, 'representation'), ['renamed']);
});

test('a workspace has at most 100 plans', async () => {
  const other = await makeRecords(world);
  const path = `/api/v1/workspace/${other.workspaceId}/plan`;
  await Promise.all(Array.from({ length: 100 }, () => make(path, { name: 'p' })));
  await refused(40945, ask('post', path, { name: 'p' }));
});

test('another plan now: what is left of the first is voided, the second begins, what was given by hand stays', async () => {
  const free = await make(PLAN, { name: 'free', limits, grants: [trial], schedules: [{ ...monthly, credits: '50' }] });
  const pro = await make(PLAN, { name: 'pro', allowOverages: true, spendCap: '9000', schedules: [monthly] });
  const { id, key } = await customerOf(free.id);
  await records.granted(id, { credits: '7', priority: 90 });
  await records.spend(key, '15');
  const path = `${RECORD}/${id}`;
  const after = await change(path, { planId: pro.id });
  assert.equal(after, await records.billing(id), 'the answer says what is in force');
  const settings = { planId: pro.id, planVersion: 1, allowOverages: true, spendCap: '9000', limits: undefined };
  const amounts = { totalCredits: '162', usedCredits: '15', availableCredits: '107', expiredCredits: '40' };
  for (const [name, value] of Object.entries({ ...settings, ...amounts })) assert.equal(after[name], value, name);
  assert.equal(await standing(id), ['ACTIVE allowance 100', 'ACTIVE undefined 7', ...toCome]);
  assert.equal(await change(path, { planId: pro.id }), after, 'again changes nothing');
  // Back again: its trial was given.
  const back = await change(path, { planId: free.id, allowOverages: true });
  assert.equal([back.availableCredits, back.allowOverages, back.limits], ['57', true, limits]);
  const left = await change(path, { planId: null });
  assert.equal([left.planId, left.availableCredits, left.limits], [undefined, '7', limits]);
  assert.equal(await standing(id), ['ACTIVE undefined 7']);
  await world.booked();
  assert.is((await records.proof(id)).status, 'EXACT');
});

async function recordWith(planId: string, more: object = {}) {
  return make(RECORD, { workspaceId, externalMeterId: randomUUID(), planId, ...more });
}

async function customerOf(planId: string): Promise<{ id: string; key: string }> {
  const fields = { name: 'k', workspaceId, externalMeterId: randomUUID(), planId };
  const { key, billingId } = await make('/api/v1/api-key', fields);
  return { id: billingId, key };
}

const grantsOf = async (id: string) =>
  (await records.grants(id)).map(({ state, name, credits }) => `${state} ${name} ${credits}`);

/** What is drawn from, or will be. */
const standing = async (id: string) => (await grantsOf(id)).filter((text) => /^(ACTIVE|PENDING)/.test(text)).toSorted();
