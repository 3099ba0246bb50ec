import { createHash } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers, must, type Customers } from '../../tests/helpers/customers.ts';
import { joinWorld, type World } from '../../tests/helpers/world.ts';
import { decoded } from './decode.ts';
import { forms } from './forms.ts';
import { run } from './run.ts';
import { sendKeys } from './send.ts';
import { makeTally } from './tally.ts';

// Files into a real api. What is read of them is in forms.test.ts, how they are sent in run.test.ts.
let world: World;
let workspaceId: string;
let customers: Customers;
const test = suite('keys of other systems');
test.before(async () => {
  world = await joinWorld();
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

test('keys of four forms are valid as they were, and a second run of their files changes nothing', async () => {
  const hash = (text: string, encoding: 'hex' | 'base64') => createHash('sha256').update(text).digest(encoding);
  const files = {
    unkey: `hash,external_id\n${hash('sk-of-unkey', 'base64')},of-unkey\n`,
    litellm: `token,user_id,blocked\n${hash('sk-of-litellm', 'hex')},of-litellm,f\n`,
    kong: JSON.stringify({ consumers: [{ username: 'of-kong', keyauth_credentials: [{ key: 'sk-of-kong' }] }] }),
    keys: JSON.stringify({ name: 'n', key: 'sk-of-keys', customerId: 'of-keys' }),
  };
  for (const [form, text] of Object.entries(files)) {
    assert.match((await imported(form, text)).told, /^1 keys read: 1 imported, 0 imported before, 0 refused$/);
    const { body } = await must(200, customers.verify({ key: `sk-of-${form}` }));
    assert.equal([body.status, body.customerId], ['VALID', `of-${form}`]);
  }
  const before = await stored();
  for (const [form, text] of Object.entries(files))
    assert.match((await imported(form, text)).told, /^1 keys read: 0 imported, 1 imported before, 0 refused$/);
  assert.equal(await stored(), before);
});

test('what keytally refuses is told with its place, the rest is imported, and no report holds a secret', async () => {
  const deleted = { name: 'deleted', key: 'sk-secret-deleted' };
  await imported('keys', JSON.stringify(deleted));
  const [{ id }] = await world.sql<
    [{ id: string }]
  >`select id from api_keys where workspace_id = ${workspaceId} and name = 'deleted'`;
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${id}`));
  const items = [
    { name: 'good', key: 'sk-secret-good' },
    { name: 'short', key: 'short' },
    { name: 'scoped', key: 'sk-secret-scoped', scopes: [{ representation: 'unknown', read: true }] },
    { name: 'elsewhere', key: 'sk-secret-elsewhere', workspaceId: 'ws_unknown' },
    deleted,
  ];
  const { told, report } = await imported('keys', items.map((item) => JSON.stringify(item)).join('\n'));
  assert.match(told, /^5 keys read: 1 imported, 0 imported before, 4 refused\n/);
  for (const one of ['40001: 1 (line 2)', '40003: 1 (line 3)', '40302: 1 (line 4)', 'is final: 1 (line 5)'])
    assert.ok(told.includes(one), told);
  assert.not.match(told + report, /secret/);
});

test('a run beyond the quota of keys, or with a wrong token, ends there and says why', async () => {
  const { id, token } = await world.newTeam();
  const limits = world.sql.json({ keys: 150 });
  await world.sql`insert into team_quotas (team_id, limits) values (${id}, ${limits})`;
  const own = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }, { token }))).body.workspace.id;
  const lines = Array.from({ length: 250 }, (_, i) => JSON.stringify({ name: 'n', key: `a-key-of-many-${i}` }));
  const full = await imported('keys', lines.join('\n'), { token, workspaceId: own });
  assert.match(full.told, /^100 keys read: 100 imported/);
  assert.match(full.failure, /^40320: The quota keys .+ the limit is 150, the team has 100/);
  assert.match((await imported('keys', lines[0]!, { token: 'kt_wrong' })).failure, /^40102: /);
});

test.run();

async function imported(form: string, text: string, more: { token?: string; workspaceId?: string } = {}) {
  const target = { url: world.api.url, token: more.token ?? world.team.token };
  const report: string[] = [];
  const tally = makeTally((line) => report.push(JSON.stringify(line)));
  async function* pieces() {
    yield Buffer.from(text);
  }
  const failure = await run(forms[form]!(decoded(pieces()), Date.now()), {
    workspaceId: more.workspaceId ?? workspaceId,
    skip: 0,
    atOnce: 1,
    tally,
    signal: new AbortController().signal,
    send: (items, signal) => sendKeys(target, items, signal),
  }).then(
    () => '',
    (error: Error) => error.message,
  );
  return { failure, told: tally.lines(false).join('\n'), report: report.join('\n') };
}

/** How many keys, texts of keys and lines about changes our team has. */
async function stored(): Promise<object> {
  const { id } = world.team;
  const [row] = await world.sql`
    select (select count(*)::int from api_keys where team_id = ${id}) as keys,
           (select count(*)::int from key_texts where team_id = ${id}) as texts,
           (select count(*)::int from audit_log where team_id = ${id}) as lines`;
  return { ...row };
}
