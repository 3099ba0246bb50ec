import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf } from '../../../shared/events/event.ts';
import { connectClickHouse } from '../../../shared/stores/clickhouse.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { must } from '../../../tests/helpers/customers.ts';
import { eventually, makeWorld } from '../../../tests/helpers/world.ts';
import { play } from './demo.ts';

// `make demo` with fewer calls, and with few days made up.
const CALLS = 1_000;
const DAYS = 3;
const CALLS_OF_A_DAY = 11_050;

const world = await makeWorld(['verify', 'consumer']);
await world.start('webhooks');

test('the demo goes as it should twice, and leaves refusals of many reasons, a low and an exhausted balance, and a webhook that fails', async () => {
  const from = dayOf(Date.now());
  assert.is((await demo()).right, true);
  const { right, out, workspaceId } = await demo();
  assert.is(right, true, out);
  assert.match(out, `look at it in the console: http://pages/w/${workspaceId}/`);
  assert.not.match(out, /made up/i);

  const query = { workspaceId, from, to: dayOf(Date.now()), groupBy: 'reason', interval: 'day' };
  const expected = ['SCOPE_MISSING', 'LIMIT_REACHED', 'CREDITS_USED_UP', 'IP_NOT_ALLOWED', 'DISABLED'];
  await eventually(`refusals of ${expected.join()}`, async () => {
    const { data } = (await get(`/api/v1/verifications?${new URLSearchParams(query).toString()}`)).body;
    const reasons = new Set(data.map((row: { reason?: string }) => row.reason));
    return expected.every((reason) => reasons.has(reason));
  });

  const { billings } = (await get(`/api/v1/workspace/${workspaceId}/customer-billings?limit=100`)).body;
  const left = async (meter: string) => {
    const { id } = billings.find((one: { externalMeterId: string }) => one.externalMeterId === meter);
    return (await get(`/api/v1/customer-billing/${id}`)).body.billing.availableCredits as string;
  };
  assert.equal([await left('initech'), await left('stark')], ['0', '1.9']);
  assert.match(await left('globex'), /^-/);
  const { webhooks } = await eventually('its webhook fails', async () => {
    const { body } = await get('/api/v1/webhook');
    return body.webhooks.some((one: { failingSince?: string }) => one.failingSince) && body;
  });
  assert.equal(
    webhooks.map((one: { workspaceId: string }) => one.workspaceId),
    [workspaceId],
  );
});

test('with HISTORY the days before are made up, say so, and are proved and billed like any others', async () => {
  const sql = world.sql;
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const { right, out, workspaceId } = await demo({ sql, books, days: DAYS }).finally(() => books.close());
  assert.is(right, true, out);
  assert.match(out, '33,150 events of 3 days, all of them MADE UP');
  assert.match(out, 'nobody made those calls');
  const { workspace } = (await get(`/api/v1/workspace/${workspaceId}`)).body;
  assert.match(workspace.name, /^Made up: 3 days, demo of /);

  const { billings } = (await get(`/api/v1/workspace/${workspaceId}/customer-billings?limit=100`)).body;
  assert.is(billings.length, 10);
  for (const { id, externalMeterId } of billings) {
    const { reconciliation } = (await get(`/api/v1/customer-billing/${id}/reconciliation`)).body;
    assert.is(reconciliation.status, 'EXACT', externalMeterId);
    const from = dayOf(Date.now() - (DAYS + 1) * DAY_MS);
    const to = dayOf(Date.now() + DAY_MS);
    const { statement } = (await get(`/api/v1/customer-billing/${id}/statement?from=${from}&to=${to}`)).body;
    assert.equal(statement.proof, { status: 'EXACT' }, externalMeterId);
    assert.is(statement.opening.total, '0');
    assert.is(statement.closing.used, reconciliation.usedCredits);
  }
  const query = { workspaceId, from: dayOf(Date.now() - DAYS * DAY_MS), to: dayOf(Date.now()), interval: 'day' };
  const { data } = (await get(`/api/v1/usage?${new URLSearchParams(query).toString()}`)).body;
  const events = data.reduce((sum: number, row: { events: number }) => sum + row.events, 0);
  assert.ok(events > DAYS * CALLS_OF_A_DAY && events < DAYS * CALLS_OF_A_DAY + CALLS + 20, String(events));
});

async function demo(past?: NonNullable<Parameters<typeof play>[0]['past']>) {
  const { api, verify, team } = world;
  const lines: unknown[] = [];
  const { log } = console;
  console.log = (line = '') => void lines.push(line);
  const stage = { url: api.url, verifyUrl: verify!.url, token: team.token, pages: 'http://pages', calls: CALLS };
  const right = await play({ ...stage, ...(past && { past }) }).finally(() => (console.log = log));
  const out = lines.join('\n');
  return { right, out, workspaceId: /\/w\/(ws_\w+)\/$/.exec(out)?.[1] ?? '' };
}

async function get(path: string) {
  return must(200, world.call('get', path));
}
