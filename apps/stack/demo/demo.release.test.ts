import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf } from '../../../shared/events/event.ts';
import { connectClickHouse } from '../../../shared/stores/clickhouse.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { eventually, makeWorld, must } from '../../../tests/helpers/world.ts';
import { play } from './demo.ts';

// `make demo` with fewer calls, and with fewer days made up: of last month its last one.
const CALLS = 1_000;
const DAYS = new Date().getUTCDate();

const world = await makeWorld(['verify', 'consumer']);
await world.start('webhooks');

test('the demo goes as it should twice, once with days that are made up, and leaves a closed month, refusals of many reasons, a low and an exhausted balance, and a webhook that fails', async () => {
  const from = dayOf(Date.now());
  const first = await demo();
  assert.is(first.right, true, first.out);
  assert.not.match(first.out, /made up/i);
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const { right, out, workspaceId } = await demo({ days: DAYS, sql: world.sql, books }).finally(() => books.close());
  assert.is(right, true, out);
  assert.match(out, `look at it in the console: http://pages/w/${workspaceId}/`);
  assert.match(out, `${(DAYS * 1_105).toLocaleString('en')} events of ${DAYS} days, all of them MADE UP`);
  const month = dayOf(Date.now() - DAYS * DAY_MS).slice(0, 7);
  const { statements } = (await get(`/api/v1/statements?workspaceId=${workspaceId}&month=${month}`)).body;
  const lines = statements.map((one: Record<string, string>) => [one.closed, Math.sign(Number(one.closingRemaining))]);
  assert.equal(lines.toSorted(), [[true, -1], ...Array.from({ length: 5 }, () => [true, 1])]);

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
  assert.is(await left('initech'), '0');
  assert.match(await left('globex'), /^-/);
  const { webhooks } = await eventually('its webhook fails', async () => {
    const { body } = await get('/api/v1/webhook');
    return body.webhooks.some((one: { failingSince?: string }) => one.failingSince) && body;
  });
  assert.is(webhooks.map((one: { workspaceId: string }) => one.workspaceId).join(), workspaceId);
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
