import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { windowAt } from '../../../shared/values/calendar.ts';
import { VERIFY_BATCH_PATH } from '../../../shared/verification/operation.ts';
import { request, joinWorkspace, column, makeCustomers, must, newWorkspace } from '../../../tests/helpers/world.ts';
import type { Answer } from '../../../tests/helpers/world.ts';

// The section "Limits over any window" of the contract. tests/accounts has what each window lets through.

const { world, workspaceId, customers } = await joinWorkspace();

// Where it is about noon, so that no day, week or month ends meanwhile.
const hoursFromNoon = new Date().getUTCHours() - 12;
const timezone = `Etc/GMT${hoursFromNoon < 0 ? '' : '+'}${hoursFromNoon}`;
const today = { per: 'day', timezone };
const requests = (limit: number, more: object = {}) => ({ name: 'daily', unit: 'requests', limit, ...today, ...more });
const credits = (limit: string, more: object = {}) => ({ name: 'spend', unit: 'credits', limit, ...today, ...more });
const endOfDay = () => windowAt('day', timezone, Date.now()).endMs;

test('`rateLimitPerSecond` is one more of them; without others who refused is told, and none is listed', async () => {
  const { key } = await customers.newKey({ rateLimitPerSecond: 1, limits: [requests(100)] });
  const refusedOf = (answers: any[]) => answers.find(({ status }) => status === 'RATE_LIMITED')!;
  const answers = await verifyTogether(key, 10);
  assert.equal(column(answers[0].limits, 'name'), ['rateLimitPerSecond', 'daily']);
  const refused = refusedOf(answers);
  const { resetAt, retryAt, ...by } = refused.limitedBy;
  assert.equal(by, { on: 'key', name: 'rateLimitPerSecond', limit: 1 });
  assert.equal([resetAt, retryAt], [refused.rateLimit.resetAt, resetAt]);
  const inherits = await newKeyIn(await newWorkspace(world, { defaultRateLimitPerSecond: 1 }));
  const ofWorkspace = await verifyTogether(inherits.key, 10);
  assert.is(refusedOf(ofWorkspace).limitedBy.on, 'workspace');
  assert.not(ofWorkspace.some(({ limits }) => limits));
});

test('requests are RATE_LIMITED, and credits USAGE_LIMITED by LIMIT_REACHED, on unmetered keys too; what fits into no window has no `resetAt`', async () => {
  const { key } = await customers.newKey({ limits: [requests(2), credits('1.5')] });
  const never = await verify({ key, billing: { usage: '1.500001' } });
  assert.equal(never.limitedBy, { on: 'key', name: 'spend', limit: '1.5' });
  await verify({ key, billing: { usage: '1' } });
  const byCredits = await verify({ key, billing: { usage: '0.500001' } });
  assert.equal([byCredits.status, byCredits.reason], ['USAGE_LIMITED', 'LIMIT_REACHED']);
  const endMs = endOfDay();
  assert.equal(byCredits.limitedBy, { on: 'key', name: 'spend', limit: '1.5', resetAt: endMs, retryAt: endMs });
  assert.is((await verify({ key, billing: { usage: '0.5' } })).status, 'VALID');
  const byRequests = await verify({ key });
  assert.equal([byRequests.status, byRequests.reason], ['RATE_LIMITED', 'RATE_LIMIT']);
  assert.equal(byRequests.limitedBy, { on: 'key', name: 'daily', limit: 2, resetAt: endMs, retryAt: endMs });
});

test('the order of refusal is requests of the key, of the record, then credits, then limits on credits', async () => {
  // Without a total there is no record.
  const order = async (total: string, ofKey: object[], ofRecord: object[]) => {
    const meter = total === '' ? 'none' : await customers.newMeter({ totalCredits: total, limits: ofRecord });
    const { key } = await customers.newKey({ externalMeterId: meter, limits: ofKey });
    await verify({ key, billing: { usage: total === '' ? '0' : '1' } });
    const { reason, limitedBy } = await verify({ key, billing: { usage: '1' } });
    return [reason, limitedBy?.on, limitedBy?.name].join(' ').trimEnd();
  };
  const [one, other] = [requests(1), requests(1, { name: 'other' })];
  const [much, more] = [credits('1'), credits('1', { name: 'more' })];
  assert.is(await order('1', [much, one, other], [requests(1), more]), 'RATE_LIMIT key daily');
  assert.is(await order('1', [much], [more, other]), 'RATE_LIMIT billing other');
  assert.is(await order('1', [much], [more]), 'CREDITS_USED_UP');
  assert.is(await order('', [one, much], []), 'RATE_LIMIT key daily');
  assert.is(await order('', [requests(5), credits('0.5')], []), 'NO_BILLING_RECORD');
  assert.is(await order('5', [much], [more]), 'LIMIT_REACHED key spend');
  assert.is(await order('5', [], [more, much]), 'LIMIT_REACHED billing more');
});

test("a workspace's `defaultLimits` count for each key; `[]` of a key is none, and `null` goes back to them", async () => {
  const id = await newWorkspace(world, { defaultLimits: [requests(2)] });
  const [one, other] = [await newKeyIn(id), await newKeyIn(id)];
  assert.equal(remainingOf(await verify({ key: one.key })), [1]);
  assert.equal(remainingOf(await verify({ key: one.key })), [0]);
  const otherAnswer = await verify({ key: other.key });
  assert.equal([remainingOf(otherAnswer), otherAnswer.limits[0].on], [[1], 'workspace']);
  const patch = (limits: unknown) => world.call('patch', `/api/v1/workspace/${id}/api-key/${one.id}`, { limits });
  assert.equal((await must(200, patch([]))).body.apiKey.limits, []);
  assert.is((await verify({ key: one.key })).limits, undefined);
  assert.is((await must(200, patch(null))).body.apiKey.limits, undefined);
  assert.is((await verify({ key: one.key })).status, 'RATE_LIMITED');
  await must(200, world.call('patch', `/api/v1/workspace/${id}`, { defaultLimits: null }));
  assert.is((await verify({ key: one.key })).status, 'VALID');
});

test('a changed amount keeps the count, and anything else begins anew', async () => {
  const { id, key } = await customers.newKey({ limits: [requests(5)] });
  const path = `/api/v1/workspace/${workspaceId}/api-key/${id}`;
  await verify({ key });
  const weekly = { name: 'other', per: 'week' };
  for (const [limit, remaining] of [
    [requests(10), 8],
    [requests(10, { shadow: true }), 7],
    [requests(10, { name: 'other' }), 9],
    [requests(10, weekly), 9],
    [requests(10, { ...weekly, timezone: 'Asia/Tokyo' }), 9],
    [requests(10, { ...weekly, timezone: 'Asia/Tokyo', usageName: 'default' }), 9],
    [credits('10', weekly), '10'],
  ] as const) {
    await must(200, world.call('patch', path, { limits: [limit] }));
    assert.equal(remainingOf(await verify({ key })), [remaining], JSON.stringify(limit));
  }
});

async function verify(body: object) {
  return (await must(200, customers.verify(body))).body;
}

async function verifyTogether(key: string, times: number): Promise<Answer['body'][]> {
  const verifications = Array.from({ length: times }, () => ({ key }));
  const url = world.verify.url + VERIFY_BATCH_PATH;
  return (await must(200, request(url, 'post', { token: world.team.token, body: { verifications } }))).body.results;
}

const remainingOf = ({ limits }: { limits: object[] }) => column(limits, 'remaining');
const newKeyIn = (id: string) => makeCustomers(world, id).newKey();
