import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres } from '../../../../shared/stores/postgres.ts';
import { removeExpired } from '../../../consumer/jobs/expire.ts';
import { changeQuotas, describeQuotas, quotaNames, readWantedQuotas, type Quotas } from '../../resources/quotas.ts';
import { makeBackground } from '../../tests/helpers/background.ts';
import { callsOf, codesOf, columns, joinWorld, must, once, refused } from '../../tests/helpers/calls.ts';
import { urlOfApi } from '../../tests/helpers/own-api.ts';

const counts = { workspaces: 3, keys: 8, scopes: 4, access_tokens: 4, billing_records: 2, link_tokens: 3 };
const LIMITS = { ...counts, stored_bytes: 5_000_000, kept_answer_bytes: 20_000 };
const world = await joinWorld();
const background = makeBackground(world);
// With the rights of the operator's command, which are those of the api.
const sql = connectPostgres(urlOfApi(world), { max: 1, everyTeam: true });
test.after(() => sql.end());

test('each quota refuses the next one by name, limit and use, and a deletion gives one back', async () => {
  const { id, ask, made, quota, workspaceId } = await newTeam();
  const cases = [
    ['workspaces', '/api/v1/workspace', () => ({ name: 'w' }), '/api/v1/workspace'],
    ['keys', '/api/v1/api-key', () => ({ name: 'k', workspaceId }), `/api/v1/workspace/${workspaceId}/api-key`],
    ['scopes', `/api/v1/workspace/${workspaceId}/scope`, scope, `/api/v1/workspace/${workspaceId}/scope`],
    ['accessTokens', '/api/v1/access-token', () => ({ name: 't', permissions: ['key:read'] }), '/api/v1/access-token'],
    ['billingRecords', '/api/v1/customer-billing', () => ({ workspaceId, externalMeterId: random() }), undefined],
  ] as const;
  for (const [name, path, body, deleted] of cases) {
    const { limit, used } = (await quota())[name];
    let last = '';
    for (let i = used; i < limit; i++) last = await made(path, body());
    assert.equal((await quota())[name], { limit, used: limit });
    const { message, details } = await refused(40320, ask('post', path, body()), name);
    assert.match(message, new RegExp(`^The quota ${name} .* is ${limit}, the team has ${limit}, .* add 1\\.`));
    assert.equal(details, [{ path: name, message: `is ${limit} of ${limit}` }]);
    assert.equal((await quota())[name].used, limit, 'a refusal counts nothing');
    if (!deleted) continue;
    await must(200, ask('delete', `${deleted}/${last}`));
    await made(path, body());
    await refused(40320, ask('post', path, body()), name);
  }
  await exact(id);
});

test('link tokens count until their rows are removed, also revoked ones, and the refusal says that they go by themselves', async () => {
  const { id, ask, quota, workspaceId } = await newTeam();
  const make = () => ask('post', '/api/v1/link-token', { workspaceId, customerId: 'c' });
  for (let i = 0; i < 3; i++) await must(201, make());
  await world.sql`update link_tokens set revoked_at = now() where team_id = ${id}`;
  const { message } = await refused(40320, make());
  assert.match(message, /^The quota linkTokens .* Wait until earlier ones are gone/);
  await world.sql`update link_tokens set expires_at = 1 where team_id = ${id}`;
  await removeExpired(world.sql, new AbortController().signal);
  await must(201, make());
  assert.equal((await quota()).linkTokens, { limit: 3, used: 1 });
  await exact(id);
});

test('kept answers count by their bytes; beyond them a write under an Idempotency-Key stores nothing', async () => {
  const { id, ask, quota, workspaceId } = await newTeam();
  const create = (headers = {}) =>
    ask('post', '/api/v1/api-key', { workspaceId, name: 'k', metadata: { text: 'x'.repeat(3_000) } }, headers);
  const kept = async () => (await quota()).keptAnswerBytes.used;
  const key = once();
  const { text } = await must(201, create(key));
  const used = await kept();
  assert.ok(used > 512 + text.length - 100 && used < 1_000 + text.length, `${used} for ${text.length}`);
  await must(201, create(key));
  assert.is(await kept(), used, 'a repetition keeps nothing more');

  await setQuota(id, `kept_answer_bytes=${2 * used - 1}`);
  const { message } = await refused(40320, create(once()));
  assert.match(message, /^The quota keptAnswerBytes .* Wait until earlier ones are gone/);
  assert.is((await quota()).keys.used, 1);
  await must(201, create());
  await exact(id);

  await world.sql`update idempotency_keys set created_at = now() - interval '2 days' where team_id = ${id}`;
  await removeExpired(world.sql, new AbortController().signal);
  assert.is(await kept(), 0);
  await must(201, create(once()));
  await exact(id);
});

test('20 keys at once with room for one: exactly one is made; a refusal under an Idempotency-Key is not kept', async () => {
  const { id, ask, workspaceId } = await newTeam();
  await setQuota(id, 'keys=1');
  const create = (headers = {}) => ask('post', '/api/v1/api-key', { name: 'k', workspaceId }, headers);
  const answers = await Promise.all(Array.from({ length: 20 }, () => create()));
  assert.equal(codesOf(answers), [201, ...Array<number>(19).fill(40320)]);
  await exact(id);
  const again = once();
  await must(403, create(again));
  await setQuota(id, 'keys=2');
  await must(201, create(again));
});

test('settings cannot fill Redis: their bytes count, of a workspace in each shard, and PATCH gives them back', async () => {
  const { id, ask, made, quota, workspaceId } = await newTeam();
  const addresses = Array.from({ length: 1_000 }, (_, i) => `2001:db8::${i.toString(16)}`);
  const alerts = Array.from({ length: 8 }, (_, i) => ({ name: `${i}`.padEnd(64, '.'), when: { usedPercent: 80 } }));
  const limit = { unit: 'requests', limit: 1, per: 'day' };
  const limits = Array.from({ length: 4 }, (_, i) => ({ ...limit, name: `${i}`.padEnd(128, '.') }));
  const ofWorkspace = `/api/v1/workspace/${workspaceId}`;
  const ofRecord = `/api/v1/customer-billing/${await made('/api/v1/customer-billing', { workspaceId, externalMeterId: 'm' })}`;
  const ofKey = `${ofWorkspace}/api-key/${await made('/api/v1/api-key', { name: 'k', workspaceId })}`;
  const before = (await quota()).storedBytes.used;
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
    await must(200, ask('patch', path, body));
    const bytes = (await quota()).storedBytes.used - before;
    assert.ok(bytes >= least, `${path}: ${bytes}`);
    await exact(id);
    await must(200, ask('patch', path, Object.fromEntries(Object.keys(body).map((name) => [name, null]))));
    assert.is((await quota()).storedBytes.used, before);
    // One byte less than they take is no room for them.
    await setQuota(id, `stored_bytes=${before + bytes - 1}`);
    assert.is((await refused(40320, ask('patch', path, body))).details[0].path, 'storedBytes');
    await setQuota(id, `stored_bytes=${LIMITS.stored_bytes}`);
  }
  await exact(id);
});

test('a team that grants, refills, adjusts and schedules for ever reaches its bytes: those rows stay', async () => {
  const { id, ask, made, quota, workspaceId } = await newTeam();
  const bid = await made('/api/v1/customer-billing', { workspaceId, externalMeterId: 'm', totalCredits: '10' });
  const path = `/api/v1/customer-billing/${bid}`;
  for (const [at, body] of [
    [`${path}/grant`, { credits: '1', metadata: { text: 'x'.repeat(1_000) } }],
    ['/api/v1/customer-billing/refill', { workspaceId, externalMeterId: 'm', refill: '1' }],
    [`${path}/adjustment`, { amount: '1', reason: 'x'.repeat(500) }],
    [`${path}/grant-schedule`, { credits: '1', every: 'month' }],
  ] as const) {
    const post = () => ask('post', at, body, once());
    const before = (await quota()).storedBytes.used;
    assert.ok((await post()).status < 300, at);
    const { used } = (await quota()).storedBytes;
    assert.ok(used - before >= 192, `${at}: ${used - before}`);
    await setQuota(id, `stored_bytes=${used + 100}`);
    await must(403, post());
    await setQuota(id, `stored_bytes=${LIMITS.stored_bytes}`);
  }
  await exact(id);
});

test('a team that creates and deletes keys for ever reaches its bytes: what stays in Redis counts', async () => {
  const { id, ask, quota, workspaceId } = await newTeam();
  const room = 10_000;
  await setQuota(id, `stored_bytes=${(await quota()).storedBytes.used + room}`);
  const create = () =>
    ask('post', '/api/v1/api-key', { name: 'k', workspaceId, metadata: { text: 'x'.repeat(1_000) } });
  let made = 0;
  let answer = await create();
  for (; answer.status === 201 && made < 20; made++) {
    await must(200, ask('delete', `/api/v1/workspace/${workspaceId}/api-key/${answer.body.apiKey.id}`));
    answer = await create();
  }
  assert.ok(made > 3 && made < 10, `${made} fit into ${room} bytes`);
  assert.is((await quota()).keys.used, 0);
  await exact(id);
});

test('the keys of a deleted workspace give everything back once Redis has forgotten them', async () => {
  const { id, ask, made, quota } = await newTeam();
  const stored = async () => (await quota()).storedBytes.used;
  const before = await stored();
  const workspaceId = await made('/api/v1/workspace', { name: 'w' });
  for (let i = 0; i < 5; i++) await made('/api/v1/api-key', { name: 'k', workspaceId });
  await must(200, ask('delete', `/api/v1/workspace/${workspaceId}`));
  await background.removeUntil(async () => (await quota()).keys.used === 0);
  assert.ok((await stored()) > before, 'the tombstone in each shard');
  await world.sql`update workspaces set keys_removed_at = now() - interval '2 days' where id = ${workspaceId}`;
  await background.removeUntil(async () => (await stored()) === before);
  await exact(id);
});

test("the operator's command sets a team's own limit, shows it, and takes it back; the audit log tells", async () => {
  const { id, token } = await world.newTeam();
  const { ask, read } = callsOf(world, token);
  const defaults = Object.fromEntries(quotaNames.map((one) => [one, 3])) as Quotas;
  const shown = async () => (await describeQuotas(sql, id, defaults)).join('\n');
  const make = () => ask('post', '/api/v1/workspace', { name: 'w' });
  assert.match(await shown(), /^workspaces +0 of 3 \(default\)$/m);
  await setQuota(id, 'workspaces=1', 'api_per_second=77');
  assert.match(await shown(), /^workspaces +0 of 1$[^]*^api_per_second +77$/m);
  const { workspaces, apiPerSecond } = await read('/api/v1/quota');
  assert.equal([workspaces, apiPerSecond], [{ limit: 1, used: 0 }, { limit: 77 }]);
  await must(201, make());
  await must(403, make());
  await setQuota(id, 'workspaces=default');
  await must(201, make());
  // Below what it has: nothing is taken away, and nothing more is made.
  await setQuota(id, 'workspaces=1');
  assert.equal((await read('/api/v1/quota')).workspaces, { limit: 1, used: 2 });
  await must(403, make());
  const [both, one] = [{ workspaces: 1, api_per_second: 77 }, { api_per_second: 77 }];
  assert.equal(columns(await read('/api/v1/audit-log?resource=quota'), 'operation', 'before', 'after'), [
    ['npm run quota', {}, both],
    ['npm run quota', both, one],
    ['npm run quota', one, both],
  ]);
  for (const wrong of ['--team t cows=1', '--team t api_per_second=0', '--team t keys=1e9', 'keys=1'])
    assert.match(readWantedQuotas(wrong.split(' ')) as string, /name the team/, wrong);
});

const COUNTED =
  `workspaces scopes api_keys access_tokens billing_records grants grant_schedules credit_ledger adjustments
  link_tokens idempotency_keys`.split(/\s+/);
const random = () => `m-${Math.random()}`;
const scope = () => ({ name: 's', representation: `s${Math.random()}` });

/** A team with small quotas and a workspace, and its calls, without an Idempotency-Key unless one is given. */
async function newTeam() {
  const { id, token } = await world.newTeam();
  await world.sql`insert into team_quotas (team_id, limits) values (${id}, ${world.sql.json(LIMITS)})`;
  const { ask, read, make } = callsOf(world, token, {});
  const made = async (path: string, body: object): Promise<string> => (await make(path, body)).id;
  const workspaceId = await made('/api/v1/workspace', { name: 'w' });
  return { id, ask, made, quota: () => read('/api/v1/quota'), workspaceId };
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
