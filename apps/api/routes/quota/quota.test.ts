import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres } from '../../../../shared/stores/postgres.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { removeExpired } from '../../../consumer/jobs/expire.ts';
import { changeQuotas, describeQuotas, quotaNames, readWantedQuotas, type Quotas } from '../../resources/quotas.ts';
import { makeBackground } from '../../tests/helpers/background.ts';
import { urlOfApi } from '../../tests/helpers/own-api.ts';

const LIMITS = {
  workspaces: 3,
  keys: 8,
  scopes: 4,
  access_tokens: 4,
  billing_records: 2,
  stored_bytes: 5_000_000,
  link_tokens: 3,
  kept_answer_bytes: 20_000,
};
const world = await joinWorld();
const background = makeBackground(world);
// With the rights of the operator's command, which are those of the api.
const sql = connectPostgres(urlOfApi(world), { max: 1, everyTeam: true });
test.after(() => sql.end());

test('each quota refuses the next one by name, limit and use, and a deletion gives one back', async () => {
  const { call, id } = await newTeam();
  const workspaceId = await call.made('/api/v1/workspace', { name: 'w' });
  const cases = [
    ['workspaces', '/api/v1/workspace', () => ({ name: 'w' }), '/api/v1/workspace'],
    ['keys', '/api/v1/api-key', () => ({ name: 'k', workspaceId }), `/api/v1/workspace/${workspaceId}/api-key`],
    ['scopes', `/api/v1/workspace/${workspaceId}/scope`, scope, `/api/v1/workspace/${workspaceId}/scope`],
    ['accessTokens', '/api/v1/access-token', () => ({ name: 't', permissions: ['key:read'] }), '/api/v1/access-token'],
    ['billingRecords', '/api/v1/customer-billing', () => ({ workspaceId, externalMeterId: random() }), undefined],
  ] as const;
  for (const [name, path, body, deleted] of cases) {
    const { limit, used } = (await call.quota())[name];
    let last = '';
    for (let i = used; i < limit; i++) last = await call.made(path, body());
    assert.equal((await call.quota())[name], { limit, used: limit });
    const refused = await call.post(path, body());
    assert.equal([refused.status, refused.body.error.code], [403, 40320], `${name}: ${refused.text}`);
    assert.match(
      refused.body.error.message,
      new RegExp(`^The quota ${name} .* the limit is ${limit}, the team has ${limit}, .* add 1\\.`),
    );
    assert.equal(refused.body.error.details, [{ path: name, message: `is ${limit} of ${limit}` }]);
    assert.equal((await call.quota())[name].used, limit, 'a refusal counts nothing');
    if (!deleted) continue;
    await must(200, call.delete(`${deleted}/${last}`));
    await must(201, call.post(path, body()));
    assert.is((await call.post(path, body())).status, 403, name);
  }
  await exact(id);
});

test('link tokens count until their rows are removed, also revoked ones, and the refusal says that they go by themselves', async () => {
  const { call, id } = await newTeam();
  const body = { workspaceId: await call.made('/api/v1/workspace', { name: 'w' }), customerId: 'c' };
  for (let i = 0; i < 3; i++) await must(201, call.post('/api/v1/link-token', body));
  await world.sql`update link_tokens set revoked_at = now() where team_id = ${id}`;
  const { error } = (await must(403, call.post('/api/v1/link-token', body))).body;
  assert.is(error.code, 40320);
  assert.match(error.message, /^The quota linkTokens .* Wait until earlier ones are gone/);
  await world.sql`update link_tokens set expires_at = 1 where team_id = ${id}`;
  await removeExpired(world.sql, new AbortController().signal);
  await must(201, call.post('/api/v1/link-token', body));
  assert.equal((await call.quota()).linkTokens, { limit: 3, used: 1 });
  await exact(id);
});

test('kept answers count by their bytes; beyond them a write under an Idempotency-Key stores nothing', async () => {
  const { call, id } = await newTeam();
  const workspaceId = await call.made('/api/v1/workspace', { name: 'w' });
  const create = (headers = {}) =>
    call.post('/api/v1/api-key', { workspaceId, name: 'k', metadata: { text: 'x'.repeat(3_000) } }, headers);
  const kept = async () => (await call.quota()).keptAnswerBytes.used;
  const key = { 'Idempotency-Key': random() };
  const { text } = await must(201, create(key));
  const used = await kept();
  assert.ok(used > 512 + text.length - 100 && used < 1_000 + text.length, `${used} for ${text.length}`);
  await must(201, create(key));
  assert.is(await kept(), used, 'a repetition keeps nothing more');

  await setQuota(id, `kept_answer_bytes=${2 * used - 1}`);
  const { error } = (await must(403, create({ 'Idempotency-Key': random() }))).body;
  assert.match(error.message, /^The quota keptAnswerBytes .* Wait until earlier ones are gone/);
  assert.is((await call.quota()).keys.used, 1);
  await must(201, create());
  await exact(id);

  await world.sql`update idempotency_keys set created_at = now() - interval '2 days' where team_id = ${id}`;
  await removeExpired(world.sql, new AbortController().signal);
  assert.is(await kept(), 0);
  await must(201, create({ 'Idempotency-Key': random() }));
  await exact(id);
});

test('20 keys at once with room for one: exactly one is made', async () => {
  const { call, id } = await newTeam();
  const workspaceId = await call.made('/api/v1/workspace', { name: 'w' });
  await setQuota(id, 'keys=1');
  const asked = Array.from({ length: 20 }, () => call.post('/api/v1/api-key', { name: 'k', workspaceId }));
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  assert.equal(
    statuses.toSorted((a, b) => a - b),
    [201, ...Array<number>(19).fill(403)],
  );
  await exact(id);
});

test('a refusal under an Idempotency-Key is not kept: once there is room, the same request succeeds', async () => {
  const { call, id } = await newTeam();
  const create = () => call.post('/api/v1/workspace', { name: 'again' }, { 'Idempotency-Key': 'again' });
  await setQuota(id, 'workspaces=0');
  await must(403, create());
  await setQuota(id, 'workspaces=1');
  await must(201, create());
});

test('settings cannot fill Redis: their bytes count, of a workspace in each shard, and PATCH gives them back', async () => {
  const { call, id } = await newTeam();
  const addresses = Array.from({ length: 1_000 }, (_, i) => `2001:db8::${i.toString(16)}`);
  const alerts = Array.from({ length: 8 }, (_, i) => ({ name: `${i}`.padEnd(64, '.'), when: { usedPercent: 80 } }));
  const limit = { unit: 'requests', limit: 1, per: 'day' };
  const limits = Array.from({ length: 4 }, (_, i) => ({ ...limit, name: `${i}`.padEnd(128, '.') }));
  const workspaceId = await call.made('/api/v1/workspace', { name: 'w' });
  const ofWorkspace = `/api/v1/workspace/${workspaceId}`;
  const ofRecord = `/api/v1/customer-billing/${await call.made('/api/v1/customer-billing', { workspaceId, externalMeterId: 'm' })}`;
  const ofKey = `${ofWorkspace}/api-key/${await call.made('/api/v1/api-key', { name: 'k', workspaceId })}`;
  const before = (await call.quota()).storedBytes.used;
  for (const [path, body, least] of [
    [ofRecord, { alerts }, 2_000],
    [ofRecord, { limits }, 700],
    [ofKey, { limits }, 700],
    [ofKey, { allowedIPs: addresses }, 32_000],
    [ofKey, { metadata: { text: 'x'.repeat(4_000) } }, 4_000],
    [ofWorkspace, { defaultAlerts: alerts }, 50_000],
    [ofWorkspace, { defaultLimits: limits }, 40_000],
    [ofWorkspace, { defaultAllowedIPs: addresses }, 64 * 32_000],
  ] as const) {
    await must(200, call.patch(path, body));
    const bytes = (await call.quota()).storedBytes.used - before;
    assert.ok(bytes >= least, `${path}: ${bytes}`);
    await exact(id);
    await must(200, call.patch(path, Object.fromEntries(Object.keys(body).map((name) => [name, null]))));
    assert.is((await call.quota()).storedBytes.used, before);
    // One byte less than they take is no room for them.
    await setQuota(id, `stored_bytes=${before + bytes - 1}`);
    assert.is((await must(403, call.patch(path, body))).body.error.details[0].path, 'storedBytes');
    await setQuota(id, `stored_bytes=${LIMITS.stored_bytes}`);
  }
  await exact(id);
});

test('a team that grants, refills, adjusts and schedules for ever reaches its bytes: those rows stay', async () => {
  const { call, id } = await newTeam();
  const workspaceId = await call.made('/api/v1/workspace', { name: 'w' });
  const bid = await call.made('/api/v1/customer-billing', { workspaceId, externalMeterId: 'm', totalCredits: '10' });
  const path = `/api/v1/customer-billing/${bid}`;
  for (const [at, body] of [
    [`${path}/grant`, { credits: '1', metadata: { text: 'x'.repeat(1_000) } }],
    ['/api/v1/customer-billing/refill', { workspaceId, externalMeterId: 'm', refill: '1' }],
    [`${path}/adjustment`, { amount: '1', reason: 'x'.repeat(500) }],
    [`${path}/grant-schedule`, { credits: '1', every: 'month' }],
  ] as const) {
    const post = () => call.post(at, body, { 'Idempotency-Key': random() });
    const before = (await call.quota()).storedBytes.used;
    assert.ok((await post()).status < 300, at);
    const { used } = (await call.quota()).storedBytes;
    assert.ok(used - before >= 192, `${at}: ${used - before}`);
    await setQuota(id, `stored_bytes=${used + 100}`);
    await must(403, post());
    await setQuota(id, `stored_bytes=${LIMITS.stored_bytes}`);
  }
  await exact(id);
});

test('a team that creates and deletes keys for ever reaches its bytes: what stays in Redis counts', async () => {
  const { call, id } = await newTeam();
  const workspaceId = await call.made('/api/v1/workspace', { name: 'w' });
  const room = 10_000;
  await setQuota(id, `stored_bytes=${(await call.quota()).storedBytes.used + room}`);
  const body = { name: 'k', workspaceId, metadata: { text: 'x'.repeat(1_000) } };
  let made = 0;
  let answer = await call.post('/api/v1/api-key', body);
  for (; answer.status === 201 && made < 20; made++) {
    await must(200, call.delete(`/api/v1/workspace/${workspaceId}/api-key/${answer.body.apiKey.id}`));
    answer = await call.post('/api/v1/api-key', body);
  }
  assert.ok(made > 3 && made < 10, `${made} fit into ${room} bytes`);
  assert.is((await call.quota()).keys.used, 0);
  await exact(id);
});

test('the keys of a deleted workspace give everything back once Redis has forgotten them', async () => {
  const { call, id } = await newTeam();
  const stored = async () => (await call.quota()).storedBytes.used;
  const empty = await stored();
  const workspaceId = await call.made('/api/v1/workspace', { name: 'w' });
  for (let i = 0; i < 5; i++) await call.made('/api/v1/api-key', { name: 'k', workspaceId });
  await must(200, call.delete(`/api/v1/workspace/${workspaceId}`));
  await background.removeUntil(async () => (await call.quota()).keys.used === 0);
  assert.ok((await stored()) > empty, 'the tombstone in each shard');
  await world.sql`update workspaces set keys_removed_at = now() - interval '2 days' where id = ${workspaceId}`;
  await background.removeUntil(async () => (await stored()) === empty);
  await exact(id);
});

test("the operator's command sets a team's own limit, shows it, and takes it back; the audit log tells", async () => {
  const { id, token } = await world.newTeam();
  const call = callsOf(token);
  const defaults = Object.fromEntries(quotaNames.map((one) => [one, 3])) as Quotas;
  const shown = async () => (await describeQuotas(sql, id, defaults)).join('\n');
  const make = () => call.post('/api/v1/workspace', { name: 'w' });
  assert.match(await shown(), /^workspaces +0 of 3 \(default\)$/m);
  await setQuota(id, 'workspaces=1', 'api_per_second=77');
  assert.match(await shown(), /^workspaces +0 of 1$[^]*^api_per_second +77$/m);
  const { workspaces, apiPerSecond } = await call.quota();
  assert.equal([workspaces, apiPerSecond], [{ limit: 1, used: 0 }, { limit: 77 }]);
  await must(201, make());
  await must(403, make());
  await setQuota(id, 'workspaces=default');
  await must(201, make());
  // Below what it has: nothing is taken away, and nothing more is made.
  await setQuota(id, 'workspaces=1');
  assert.equal((await call.quota()).workspaces, { limit: 1, used: 2 });
  await must(403, make());
  const { auditLog } = (await must(200, call.get('/api/v1/audit-log?resource=quota'))).body;
  const [both, one] = [{ workspaces: 1, api_per_second: 77 }, { api_per_second: 77 }];
  assert.equal(
    auditLog.map(({ operation, before, after }: any) => [operation, before, after]),
    [
      ['npm run quota', {}, both],
      ['npm run quota', both, one],
      ['npm run quota', one, both],
    ],
  );
  for (const wrong of ['--team t cows=1', '--team t api_per_second=0', '--team t keys=1e9', 'keys=1'])
    assert.match(readWantedQuotas(wrong.split(' ')) as string, /name the team/, wrong);
});

const COUNTED =
  `workspaces scopes api_keys access_tokens billing_records grants grant_schedules credit_ledger adjustments
  link_tokens idempotency_keys`.split(/\s+/);
const random = () => `m-${Math.random()}`;
const scope = () => ({ name: 's', representation: `s${Math.random()}` });

/** A team with small quotas, and calls as that team. */
async function newTeam() {
  const { id, token } = await world.newTeam();
  await world.sql`insert into team_quotas (team_id, limits) values (${id}, ${world.sql.json(LIMITS)})`;
  return { id, call: callsOf(token) };
}

function callsOf(token: string) {
  const get = (path: string) => world.call('get', path, undefined, { token });
  const post = (path: string, body: object, headers = {}) => world.call('post', path, body, { token, headers });
  return {
    get,
    post,
    patch: (path: string, body: object) => world.call('patch', path, body, { token }),
    delete: (path: string) => world.call('delete', path, undefined, { token }),
    quota: async () => (await must(200, get('/api/v1/quota'))).body.quota,
    /** The id of what was made. */
    made: async (path: string, body: object): Promise<string> => {
      const answer = await must(201, post(path, body));
      return (Object.values(answer.body)[0] as { id: string }).id;
    },
  };
}

/** The counters say what the rows say. */
async function exact(teamId: string): Promise<void> {
  const { sql } = world;
  const counted = new Map<string, number>();
  for (const table of COUNTED) {
    const isLeft = sql`
      not exists (select from workspaces w where to_jsonb(t) ->> 'masked_key' is not null and w.deleted_at is not null
                    and w.id = to_jsonb(t) ->> 'workspace_id' and to_jsonb(t) ->> 'id' <= w.keys_removed_to)`;
    const rows = await sql<{ use: Record<string, number> }[]>`
      select use_of(t) as use from ${sql(table)} t where team_id = ${teamId} and ${isLeft}`;
    for (const [name, amount] of rows.flatMap(({ use }) => Object.entries(use)))
      counted.set(name, (counted.get(name) ?? 0) + amount);
  }
  const [kept] = await sql<[{ used: object }]>`select used from team_usage where team_id = ${teamId}`;
  assert.equal(kept.used, Object.fromEntries([...counted].filter(([, amount]) => amount !== 0)));
}

/** Does what the operator's command does with these arguments; gives the pages of changes to bring into force. */
async function setQuota(team: string, ...changes: string[]) {
  const wanted = readWantedQuotas(['--team', team, ...changes]);
  if (typeof wanted === 'string') throw new Error(wanted);
  return sql.begin((tx) => changeQuotas(tx, team, wanted.changes));
}
