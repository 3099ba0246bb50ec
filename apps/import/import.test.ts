import { createHash } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must, joinWorkspace } from '../../tests/helpers/world.ts';
import { finish, type FinishOptions } from './finish.ts';
import { forms } from './forms.ts';
import { run } from './run.ts';
import { sendKeys } from './send.ts';
import { makeTally } from './tally.ts';

// Files into a real api. What is read of them is in forms.test.ts, how they are sent in run.test.ts.

const { world, workspaceId, customers } = await joinWorkspace();

test('keys of four forms are valid as they were, and a second run of their files changes nothing', async () => {
  const hash = (text: string, encoding: 'hex' | 'base64') => createHash('sha256').update(text).digest(encoding);
  const text = (form: string) => `sk-${form}-3xVq9TzB1mLw8KfR`;
  const files = {
    unkey: `hash,external_id\n${hash(text('unkey'), 'base64')},of-unkey\n`,
    litellm: `token,user_id,blocked\n${hash(text('litellm'), 'hex')},of-litellm,f\n`,
    kong: JSON.stringify({ consumers: [{ username: 'of-kong', keyauth_credentials: [{ key: text('kong') }] }] }),
    keys: JSON.stringify({ name: 'n', key: text('keys'), customerId: 'of-keys' }),
  };
  for (const [form, file] of Object.entries(files)) {
    assert.match((await imported(form, file)).told, /^1 keys read: 1 imported, 0 imported before, 0 refused$/);
    const { body } = await must(200, customers.verify({ key: text(form) }));
    assert.equal([body.status, body.customerId], ['VALID', `of-${form}`]);
  }
  const before = await stored();
  for (const [form, file] of Object.entries(files))
    assert.match((await imported(form, file)).told, /^1 keys read: 0 imported, 1 imported before, 0 refused$/);
  assert.equal(await stored(), before);
});

test('what keytally refuses is told with its place, the rest is imported, and no report holds a secret; a wrong token ends the run', async () => {
  const deleted = { name: 'deleted', key: 'sk-secret-deleted', allowWeak: true };
  await imported('keys', JSON.stringify(deleted));
  const [{ id }] = await world.sql<
    [{ id: string }]
  >`select id from api_keys where workspace_id = ${workspaceId} and name = 'deleted'`;
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${id}`));
  const items = [
    { name: 'good', key: 'sk-secret-good', allowWeak: true },
    { name: 'short', key: 'short' },
    { name: 'scoped', key: 'sk-secret-scoped', allowWeak: true, scopes: [{ representation: 'unknown', read: true }] },
    { name: 'elsewhere', key: 'sk-secret-elsewhere', allowWeak: true, workspaceId: 'ws_unknown' },
    deleted,
  ];
  const { told, report } = await imported('keys', items.map((item) => JSON.stringify(item)).join('\n'));
  assert.match(told, /^5 keys read: 1 imported, 0 imported before, 4 refused\n/);
  for (const one of [
    /40001: .+: 1 \(line 2\)/,
    /40003: .+: 1 \(line 3\)/,
    /40302: .+: 1 \(line 4\)/,
    /back: 1 \(line 5\)/,
  ])
    assert.match(told, one);
  assert.not.match(told + report, /secret/);
  assert.match((await imported('keys', JSON.stringify(items[0]), { token: 'kt_wrong' })).failure, /^40102: /);
});

test('what is left of a key elsewhere is what it may use here, once, and then what its periods bring', async () => {
  const now = Date.now();
  const reset = new Date(now + 86_400_000).toISOString();
  const hash = (text: string) => createHash('sha256').update(text).digest('base64');
  const [spent, shared] = ['sk-7hQ2xVq9TzB1mLw8KfR4', 'sk-9pWd3YcN6uJe5GsA2tHk'];
  const unkey = `hash,external_id,remaining_requests\n${hash(shared)},of-budget,90\n`;
  const litellm = `token,user_id,max_budget,spend,budget_duration,budget_reset_at\n${spent},of-budget,334,333.5,30d,${reset}\n`;
  const asked = { meterFrom: 'customerId' } as const;
  for (const [form, file] of [
    ['unkey', unkey],
    ['litellm', litellm],
  ] as const) {
    const { told } = await imported(form, file);
    assert.match(told, /0 imported, 0 imported before, 1 refused\nrefused, because .+--meter-from/);
    assert.match((await imported(form, file, asked)).told, /: 1 imported/);
    assert.match((await imported(form, file, asked)).told, /: 0 imported, 1 imported before/);
  }
  for (const [key, usage, wanted] of [
    [shared, '90.6', 'USAGE_LIMITED 90.5'],
    [spent, '90.5', 'VALID 0'],
    [shared, '0.000001', 'USAGE_LIMITED 0'],
  ] as const) {
    const { status, billing } = (await must(200, customers.verify({ key, billing: { usage } }))).body;
    assert.is(`${status} ${billing.availableCredits}`, wanted);
  }
  const { id } = await customers.billing('of-budget');
  const { body } = await must(200, world.call('get', `/api/v1/customer-billing/${id}/grant-schedules`));
  const [{ credits, every, anchorAt }] = body.grantSchedules;
  assert.equal([credits, every, anchorAt], ['334', 'month', Date.parse(reset)]);
});

async function imported(form: string, text: string, more: { token?: string } & Partial<FinishOptions> = {}) {
  const target = { url: world.api.url, token: more.token ?? world.team.token };
  const report: string[] = [];
  const tally = makeTally((line) => report.push(JSON.stringify(line)));
  const options = { meterFrom: 'none', withoutCredits: false, allowWeak: false, restore: false, ...more } as const;
  const rows = forms[form]!(text, Date.now()).map((row) => finish(row, options));
  const failure = await run(rows, {
    workspaceId,
    skip: 0,
    tally,
    signal: new AbortController().signal,
    send: (items, signal) => sendKeys(target, items, signal),
  }).then(
    () => '',
    (error: Error) => error.message,
  );
  return { failure, told: tally.lines(false).join('\n'), report: report.join('\n') };
}

async function stored(): Promise<object> {
  const { id } = world.team;
  const [row] = await world.sql`
    select (select count(*)::int from api_keys where team_id = ${id}) as keys,
           (select count(*)::int from key_texts where team_id = ${id}) as texts,
           (select count(*)::int from audit_log where team_id = ${id}) as lines`;
  return { ...row };
}
