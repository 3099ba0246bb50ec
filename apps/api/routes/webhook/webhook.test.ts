import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { permissions } from '../../../../shared/contract/caller.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { webhookSecretPlace, webhookSealer } from '../../../../shared/values/webhook-secret.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { fillWith } from '../../../../tests/helpers/waiting-deliveries.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { resealOnce } from '../../resources/reseal.ts';

type Made = { id: string; secret: string };

let workspaceId: string;
// Each test in a team of its own: one has 20 webhooks at most.
let token: string;
let teamId: string;
const URL = 'https://hooks.example.com/in';

const world = await joinWorld();
test.before.each(async () => {
  ({ id: teamId, token } = await world.newTeam());
  workspaceId = (await must(201, call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
});

const call = (method: string, path: string, body?: object, by = token) => world.call(method, path, body, { token: by });
const create = (body: object = {}, by = token) =>
  call('post', '/api/v1/webhook', { url: URL, events: ['key.created'], ...body }, by);
const made = async (body: object = {}, by = token): Promise<Made> => (await must(201, create(body, by))).body.webhook;
const pathOf = ({ id }: { id: string }) => `/api/v1/webhook/${id}`;
const deliver = async (webhook: Made) => (await must(201, call('post', `${pathOf(webhook)}/test`))).body.delivery;
const listed = async (by = token): Promise<Made[]> =>
  (await must(200, call('get', '/api/v1/webhook', undefined, by))).body.webhooks;
const idsOf = (items: { id: string }[]) => items.map(({ id }) => id);

test('the secret is in the answer that made it, sealed in Postgres and in no other answer', async () => {
  const { secret, ...rest } = (await must(201, create({ description: 'chat', workspaceId }))).body.webhook;
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
  assert.equal((await must(200, call('get', pathOf(rest)))).body, { webhook: rest });
  assert.equal(await listed(), [rest]);
  const [row] = await world.sql`select *, secret_sealed::text as sealed_text from webhooks where id = ${rest.id}`;
  const sealer = webhookSealer([Buffer.alloc(32, 7)]);
  assert.is(sealer.unseal(row!['secretSealed'] as Buffer, webhookSecretPlace(rest.id)), secret);
  const audit = await world.sql`select before, after from audit_log where resource_id = ${rest.id}`;
  assert.is(audit.length, 1);
  assert.not.match(JSON.stringify([row, audit]), secret);
});

test('a URL that can only be inside is refused with what would be right, also by a change', async () => {
  const webhook = await made();
  const url = 'https://localhost/';
  for (const answer of [await create({ url }), await call('patch', pathOf(webhook), { url })]) {
    assert.is(answer.status, 400, answer.text);
    const message = 'must have a name that can be reached from outside';
    assert.equal(answer.body.error.details, [{ path: '/url', message }]);
  }
});

test('a team has at most 20 webhooks, also when many are made at once', async () => {
  const answers = await Promise.all(Array.from({ length: 24 }, () => create()));
  assert.is(answers.filter(({ status }) => status === 201).length, 20);
  for (const { status, body } of answers) if (status !== 201) assert.is(body.error.code, 40960);
  const [one] = await listed();
  await must(200, call('delete', pathOf(one!)));
  await made();
  assert.is((await create()).body.error.code, 40960);
});

test('a token that is limited to workspaces makes, sees and changes webhooks of these alone', async () => {
  const limited = await world.newToken(teamId, permissions, [workspaceId]);
  const ofTeam = await made();
  assert.is((await create({}, limited)).body.error.code, 40302);
  const { id } = await made({ workspaceId }, limited);
  assert.equal(idsOf(await listed(limited)), [id]);
  assert.is((await call('patch', pathOf(ofTeam), { enabled: false }, limited)).body.error.code, 40460);
});

test('a webhook that is deleted, or whose workspace is, is gone with its secret and its deliveries; those of the team stay', async () => {
  const [alone, together, ofTeam] = [await made(), await made({ workspaceId }), await made()];
  const { type, state, tries } = await deliver(alone);
  assert.equal([type, state, tries], ['webhook.test', 'WAITING', []]);
  await deliver(together);
  await must(200, call('delete', pathOf(alone)));
  await must(200, call('delete', `/api/v1/workspace/${workspaceId}`));
  for (const [webhook, operation] of [
    [alone, 'DELETE /api/v1/webhook/{wid}'],
    [together, 'DELETE /api/v1/workspace/{id}'],
  ] as const) {
    for (const path of ['', '/deliveries'])
      assert.is((await call('get', pathOf(webhook) + path)).body.error.code, 40460);
    const [row] = await world.sql`
      select secret_sealed, previous_sealed, enabled from webhooks where id = ${webhook.id}`;
    assert.equal({ ...row }, { secretSealed: null, previousSealed: null, enabled: false });
    const [line] = await world.sql`
      select operation, before->>'id' as before, after from audit_log where resource_id = ${webhook.id} order by id desc limit 1`;
    assert.equal({ ...line }, { operation, before: webhook.id, after: null });
  }
  assert.equal(idsOf(await listed()), [ofTeam.id]);
});

test('when the master key is changed, secrets are sealed again and stay what they are, the one before a rotation too', async () => {
  const [old, fresh] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
  const webhook = await made();
  const { secret } = (await must(200, call('post', `${pathOf(webhook)}/rotate`))).body.webhook;
  const sealer = webhookSealer([fresh]);
  // It is rolled back: the api of this stack has the old key alone.
  const undone = new Error('undone');
  let row: Record<string, any> | undefined;
  await world.sql
    .begin(async (tx) => {
      await resealOnce(tx, [fresh, old], makeLogger('test', 'silent'));
      [row] = await tx`select * from webhooks where id = ${webhook.id}`;
      throw undone;
    })
    .catch((error: unknown) => assert.is(error, undone));
  const opened = [row!.secretSealed, row!.previousSealed].map((one) =>
    sealer.unseal(one, webhookSecretPlace(webhook.id)),
  );
  assert.equal([...opened, row!.sealedUnder], [secret, webhook.secret, sealer.keyName]);
});

test('an unknown delivery, and one of another webhook, are not delivered again', async () => {
  const [one, other] = [await made(), await made()];
  const { id: delivery } = await deliver(other);
  for (const id of [newId('dlv'), delivery, 'x'])
    assert.is((await call('post', `${pathOf(one)}/delivery/${id}/redeliver`)).body.error.code, 40461, id);
});

test('while 75,000 wait for a team, and 1,000 for a webhook, nothing more is asked to wait for it', async () => {
  const webhook = await made();
  await fillWith(world.sql, { teamId, webhookId: webhook.id, deliveries: 75_001 });
  assert.is((await call('post', `${pathOf(webhook)}/test`)).body.error.code, 40962);
});

test('deliveries are listed newest first, page by page', async () => {
  const webhook = await made();
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.unshift((await deliver(webhook)).id);
  const pages = await readPages<{ id: string }>(2, (query) => call('get', `${pathOf(webhook)}/deliveries?${query}`));
  assert.equal(pages.map(idsOf), [ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
});
