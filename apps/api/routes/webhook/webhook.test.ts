import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../../shared/runtime/clock.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { fillWith } from '../../../../tests/helpers/waiting-deliveries.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { eventually, makeWorld, PATIENT, type World } from '../../../../tests/helpers/world.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { webhookSecretPlace, webhookSealer } from '../../../../shared/values/webhook-secret.ts';
import { permissions } from '../../../../shared/contract/caller.ts';
import { resealWebhookSecrets } from '../../resources/reseal-webhook-secrets.ts';

const test = suite('webhooks');
let world: World;
let workspaceId: string;
const URL = 'https://hooks.example.com/in';

test.before(async () => {
  world = await makeWorld([], { WEBHOOK_ALLOWED_TARGETS: '127.0.0.1:9443', ...PATIENT });
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
});
test.after(() => world?.stop());

const create = (body: object = {}, options = {}) =>
  world.call('post', '/api/v1/webhook', { url: URL, events: ['key.created'], ...body }, options);
const pathOf = ({ id }: { id: string }) => `/api/v1/webhook/${id}`;

test('the secret is in the answer that made it, sealed in Postgres and in no other answer', async () => {
  const made = (await must(201, create({ description: 'chat', workspaceId }))).body.webhook;
  const { secret, ...rest } = made;
  assert.equal(rest, {
    id: rest.id,
    url: URL,
    events: ['key.created'],
    workspaceId,
    description: 'chat',
    enabled: true,
    missedEvents: 0,
    createdAt: rest.createdAt,
    updatedAt: rest.updatedAt,
  });
  assert.equal((await must(200, world.call('get', pathOf(made)))).body, { webhook: rest });
  const { webhooks } = (await must(200, world.call('get', '/api/v1/webhook'))).body;
  assert.equal(
    webhooks.filter((one: { id: string }) => one.id === rest.id),
    [rest],
  );
  const [row] = await world.sql`select *, secret_sealed::text as sealed_text from webhooks where id = ${rest.id}`;
  assert.not.match(JSON.stringify(row), secret);
  const sealer = webhookSealer([Buffer.alloc(32, 7)]);
  assert.is(sealer.unseal(row!['secretSealed'] as Buffer, webhookSecretPlace(rest.id)), secret);
  const audit = await world.sql`select before, after from audit_log where resource_id = ${rest.id}`;
  assert.is(audit.length, 1);
  assert.not.match(JSON.stringify(audit), secret);
});

test('a URL that can only be inside is refused with what would be right, also by a change', async () => {
  const { webhook } = (await must(201, create())).body;
  for (const [url, message] of [
    ['http://hooks.example.com/', 'must begin with https://'],
    ['https://localhost/', 'must have a name that can be reached from outside'],
    ['https://169.254.169.254/', 'must have the name of a host, not an address'],
    ['https://0x7f.1:9000/', 'must have the name of a host, not an address'],
    ['https://u:p@hooks.example.com/', 'must have no user name and no password'],
  ]) {
    for (const answer of [await create({ url }), await world.call('patch', pathOf(webhook), { url })]) {
      assert.is(answer.status, 400, answer.text);
      assert.equal(answer.body.error.details, [{ path: '/url', message }]);
    }
  }
  await must(201, create({ url: 'https://127.0.0.1:9443/in' }));
});

test('events are known types, at least one, and none twice', async () => {
  for (const events of [[], ['key.born'], ['key.created', 'key.created'], 'key.created'])
    assert.is((await create({ events })).status, 400, JSON.stringify(events));
});

test('a team has at most 20 webhooks, also when many are made at once', async () => {
  const { id: teamId, token } = await world.newTeam();
  const answers = await Promise.all(Array.from({ length: 24 }, () => create({}, { token })));
  assert.is(answers.filter(({ status }) => status === 201).length, 20);
  for (const { status, body } of answers) if (status !== 201) assert.is(body.error.code, 40960);
  const [one] = (await world.call('get', '/api/v1/webhook', undefined, { token })).body.webhooks;
  await must(200, world.call('delete', pathOf(one), undefined, { token }));
  await must(201, create({}, { token }));
  const [{ live }] = await world.sql<[{ live: number }]>`
    select count(*) as live from webhooks where team_id = ${teamId} and deleted_at is null`;
  assert.is(live, 20);
});

test('a token that is limited to workspaces makes, sees and changes webhooks of these alone', async () => {
  const token = await world.newToken(world.team.id, permissions, [workspaceId]);
  const ofTeam = (await must(201, create())).body.webhook;
  assert.is((await create({}, { token })).body.error.code, 40302);
  const made = (await must(201, create({ workspaceId }, { token }))).body.webhook;
  const seen = (await must(200, world.call('get', '/api/v1/webhook', undefined, { token }))).body.webhooks;
  assert.ok(seen.every((one: { workspaceId?: string }) => one.workspaceId === workspaceId));
  assert.ok(seen.some(({ id }: { id: string }) => id === made.id));
  const changed = await world.call('patch', pathOf(ofTeam), { enabled: false }, { token });
  assert.is(changed.body.error.code, 40460);
});

test('reading and writing are permissions of their own', async () => {
  const { webhook } = (await must(201, create())).body;
  const reader = await world.newToken(world.team.id, ['webhook:read']);
  await must(200, world.call('get', pathOf(webhook), undefined, { token: reader }));
  await must(200, world.call('get', `${pathOf(webhook)}/deliveries`, undefined, { token: reader }));
  await must(403, world.call('patch', pathOf(webhook), { enabled: false }, { token: reader }));
  await must(403, world.call('post', `${pathOf(webhook)}/test`, undefined, { token: reader }));
});

test('a repeated request with its Idempotency-Key makes one webhook, and answers the same secret', async () => {
  const headers = { 'Idempotency-Key': 'once' };
  const [first, again] = [await must(201, create({}, { headers })), await must(201, create({}, { headers }))];
  assert.equal(again.body, first.body);
});

test('a change is told in the audit log, and an empty one changes nothing', async () => {
  const { webhook } = (await must(201, create())).body;
  const changes = { enabled: false, events: ['key.deleted'], url: 'https://other.example.com/' };
  const changed = (await must(200, world.call('patch', pathOf(webhook), changes))).body.webhook;
  assert.equal(
    [changed.enabled, changed.events, changed.url, changed.disabledReason],
    [false, ['key.deleted'], 'https://other.example.com/', 'REQUESTED'],
  );
  const [line] = await world.sql`
    select before ->> 'url' as before, after ->> 'url' as after from audit_log
    where resource_id = ${webhook.id} order by id desc limit 1`;
  assert.equal({ ...line }, { before: URL, after: 'https://other.example.com/' });
});

test('a deleted webhook is gone with its secret, and so are its deliveries for whoever asks', async () => {
  const { webhook } = (await must(201, create())).body;
  const { delivery } = (await must(201, world.call('post', `${pathOf(webhook)}/test`))).body;
  assert.equal([delivery.type, delivery.state, delivery.tries], ['webhook.test', 'WAITING', []]);
  await must(200, world.call('delete', pathOf(webhook)));
  for (const path of ['', '/deliveries']) {
    const answer = await world.call('get', pathOf(webhook) + path);
    assert.is(answer.body.error.code, 40460);
  }
  const [row] = await world.sql`select secret_sealed, previous_sealed from webhooks where id = ${webhook.id}`;
  assert.equal({ ...row }, { secretSealed: null, previousSealed: null });
});

test('the webhooks of a workspace are deleted with it, those of the team stay', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'gone' }))).body;
  const own = (await must(201, create({ workspaceId: workspace.id }))).body.webhook;
  const ofTeam = (await must(201, create())).body.webhook;
  await must(201, world.call('post', `${pathOf(own)}/test`));
  await must(200, world.call('delete', `/api/v1/workspace/${workspace.id}`));
  assert.is((await world.call('get', pathOf(own))).body.error.code, 40460);
  const { webhooks } = (await must(200, world.call('get', '/api/v1/webhook'))).body;
  const listed = new Set(webhooks.map((one: { id: string }) => one.id));
  assert.equal([listed.has(own.id), listed.has(ofTeam.id)], [false, true]);
  const [row] = await world.sql`select secret_sealed, enabled from webhooks where id = ${own.id}`;
  assert.equal({ ...row }, { secretSealed: null, enabled: false });
  const [line] = await world.sql`
    select operation, before->>'id' as before, after from audit_log where resource = 'webhook' and resource_id = ${own.id}
    order by id desc limit 1`;
  assert.equal({ ...line }, { operation: 'DELETE /api/v1/workspace/{id}', before: own.id, after: null });
});

test('when the master key is changed, secrets are sealed again and stay what they are, the one before a rotation too', async () => {
  const [old, fresh] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
  const { webhook } = (await must(201, create())).body;
  const { secret } = (await must(200, world.call('post', `${pathOf(webhook)}/rotate`))).body.webhook;
  const resealing = resealWebhookSecrets(world.sql, [fresh, old], makeLogger('test', 'silent'), systemClock);
  const sealer = webhookSealer([fresh]);
  const row = await eventually('it is sealed again', async () => {
    const [found] = await world.sql<{ secretSealed: Buffer; previousSealed: Buffer }[]>`
      select secret_sealed, previous_sealed from webhooks where id = ${webhook.id} and sealed_under = ${sealer.keyName}`;
    return found;
  });
  await resealing.stop();
  const place = webhookSecretPlace(webhook.id);
  assert.equal(
    [row.secretSealed, row.previousSealed].map((sealed) => sealer.unseal(sealed, place)),
    [secret, webhook.secret],
  );
  // Back under the key of this test's api.
  const back = resealWebhookSecrets(world.sql, [old, fresh], makeLogger('test', 'silent'), systemClock);
  await eventually('all are', async () => {
    const name = webhookSealer([old]).keyName;
    const [other] = await world.sql`select from webhooks where sealed_under <> ${name} and deleted_at is null`;
    return !other;
  });
  await back.stop();
});

test('an unknown delivery, and one of another webhook, are not delivered again', async () => {
  const [one, other] = [(await must(201, create())).body.webhook, (await must(201, create())).body.webhook];
  const { delivery } = (await must(201, world.call('post', `${pathOf(other)}/test`))).body;
  for (const id of [newId('dlv'), delivery.id, 'x']) {
    const answer = await world.call('post', `${pathOf(one)}/delivery/${id}/redeliver`);
    assert.is(answer.body.error.code, 40461, id);
  }
});

test('while 75,000 wait for a team, and 1,000 for a webhook, nothing more is asked to wait for it', async () => {
  const { id: teamId, token } = await world.newTeam();
  const { webhook } = (await must(201, create({}, { token }))).body;
  await fillWith(world.sql, { teamId, webhookId: webhook.id, deliveries: 75_001 });
  const refused = await world.call('post', `${pathOf(webhook)}/test`, undefined, { token });
  assert.is(refused.body.error.code, 40962);
});

test('deliveries are listed newest first, page by page', async () => {
  const { webhook } = (await must(201, create())).body;
  const made: string[] = [];
  for (let i = 0; i < 5; i++)
    made.unshift((await must(201, world.call('post', `${pathOf(webhook)}/test`))).body.delivery.id);
  const seen: string[] = [];
  let cursor = '';
  do {
    const query = new URLSearchParams({ limit: '2', ...(cursor !== '' && { cursor }) });
    const page = (await must(200, world.call('get', `${pathOf(webhook)}/deliveries?${query.toString()}`))).body;
    seen.push(...page.deliveries.map(({ id }: { id: string }) => id));
    cursor = page.nextCursor ?? '';
  } while (cursor !== '');
  assert.equal(seen, made);
});

test.run();
