import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { permissions } from '../../../../shared/contract/caller.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { webhookSecretPlace, webhookSealer } from '../../../../shared/values/webhook-secret.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { fillWith } from '../../../../tests/helpers/waiting-deliveries.ts';
import { resealOnce } from '../../resources/reseal.ts';
import { callsOf, codesOf, column, joinWorld, must, refused } from '../../tests/helpers/calls.ts';
import { undone } from '../../tests/helpers/undone.ts';

type Made = { id: string; secret: string };

let workspaceId: string;
let teamId: string;
// Calls of the test's own team: one has 20 webhooks at most.
let by: ReturnType<typeof callsOf>;
const PATH = '/api/v1/webhook';
const URL = 'https://hooks.example.com/in';

const world = await joinWorld();
test.before.each(async () => {
  const { id, token } = await world.newTeam();
  [teamId, by] = [id, callsOf(world, token)];
  workspaceId = (await by.make('/api/v1/workspace', { name: 'w' })).id;
});

const create = (body: object = {}, { ask } = by) => ask('post', PATH, { url: URL, events: ['key.created'], ...body });
const made = async (body: object = {}): Promise<Made> => (await must(201, create(body))).body.webhook;
const pathOf = ({ id }: { id: string }) => `${PATH}/${id}`;
const deliver = (webhook: Made) => by.make(`${pathOf(webhook)}/test`);

test('the secret is in the answer that made it, sealed in Postgres and in no other answer', async () => {
  const { secret, ...rest } = (await must(201, create({ description: 'chat', workspaceId }))).body.webhook;
  const { id, createdAt, updatedAt, ...fields } = rest;
  const told = { url: URL, events: ['key.created'], workspaceId, description: 'chat', enabled: true, missedEvents: 0 };
  assert.equal([fields, updatedAt], [told, createdAt]);
  assert.equal(await by.read(pathOf(rest)), rest);
  assert.equal(await by.read(PATH), [rest]);
  const [row] = await world.sql`select *, secret_sealed::text as sealed_text from webhooks where id = ${id}`;
  const sealer = webhookSealer([Buffer.alloc(32, 7)]);
  assert.is(sealer.unseal(row!['secretSealed'] as Buffer, webhookSecretPlace(id)), secret);
  const audit = await world.sql`select before, after from audit_log where resource_id = ${id}`;
  assert.is(audit.length, 1);
  assert.not.match(JSON.stringify([row, audit]), secret);
});

test('a URL that can only be inside is refused with what would be right, also by a change', async () => {
  const webhook = await made();
  const url = 'https://localhost/';
  const message = 'must have a name that can be reached from outside';
  for (const answer of [create({ url }), by.ask('patch', pathOf(webhook), { url })])
    assert.equal((await refused(40001, answer)).details, [{ path: '/url', message }]);
});

test('a team has at most 20 webhooks, also when many are made at once', async () => {
  const answers = await Promise.all(Array.from({ length: 24 }, () => create()));
  assert.equal(codesOf(answers), [...Array(20).fill(201), ...Array(4).fill(40960)]);
  const [one] = await by.read(PATH);
  await by.remove(pathOf(one));
  await made();
  await refused(40960, create());
});

test('a token that is limited to workspaces makes, sees and changes webhooks of these alone', async () => {
  const limited = callsOf(world, await world.newToken(teamId, permissions, [workspaceId]));
  const ofTeam = await made();
  await refused(40302, create({}, limited));
  const { id } = (await must(201, create({ workspaceId }, limited))).body.webhook;
  assert.equal(column(await limited.read(PATH), 'id'), [id]);
  await refused(40460, limited.ask('patch', pathOf(ofTeam), { enabled: false }));
});

test('a webhook that is deleted, or whose workspace is, is gone with its secret and its deliveries; those of the team stay', async () => {
  const [alone, together, ofTeam] = [await made(), await made({ workspaceId }), await made()];
  const { type, state, tries } = await deliver(alone);
  assert.equal([type, state, tries], ['webhook.test', 'WAITING', []]);
  await deliver(together);
  await by.remove(pathOf(alone));
  await by.remove(`/api/v1/workspace/${workspaceId}`);
  for (const [webhook, operation] of [
    [alone, 'DELETE /api/v1/webhook/{wid}'],
    [together, 'DELETE /api/v1/workspace/{id}'],
  ] as const) {
    for (const path of ['', '/deliveries']) await refused(40460, by.ask('get', pathOf(webhook) + path));
    const [row] = await world.sql`
      select secret_sealed, previous_sealed, enabled from webhooks where id = ${webhook.id}`;
    assert.equal({ ...row }, { secretSealed: null, previousSealed: null, enabled: false });
    const [line] = await world.sql`
      select operation, before->>'id' as before, after from audit_log where resource_id = ${webhook.id} order by id desc limit 1`;
    assert.equal({ ...line }, { operation, before: webhook.id, after: null });
  }
  assert.equal(column(await by.read(PATH), 'id'), [ofTeam.id]);
});

test('when the master key is changed, secrets are sealed again and stay what they are, the one before a rotation too, and those of destinations', async () => {
  const [old, fresh] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
  const webhook = await made();
  const { secret } = await by.post(`${pathOf(webhook)}/rotate`);
  const destination = { workspaceId, kind: 'stripe', name: 'n', secret: 'sk_live_1' };
  const { id } = await by.make('/api/v1/meter-destination', destination);
  const sealer = webhookSealer([fresh]);
  // It is undone: the api of this stack has the old key alone.
  const rows = await undone(world.sql, async (tx) => {
    await resealOnce(tx, [fresh, old], makeLogger('test', 'silent'));
    return tx`
      select id, secret_sealed, previous_sealed, sealed_under from webhooks where id = ${webhook.id}
      union all select id, secret_sealed, null, sealed_under from meter_destinations where id = ${id}`;
  });
  const opened = rows.flatMap(({ id, secretSealed, previousSealed }) =>
    [secretSealed, previousSealed].map((one) => one && sealer.unseal(one, webhookSecretPlace(id))),
  );
  assert.equal(opened, [secret, webhook.secret, 'sk_live_1', null]);
  assert.equal(column(rows, 'sealedUnder'), [sealer.keyName, sealer.keyName]);
});

test('deliveries are listed newest first, page by page; an unknown one, and one of another webhook, are not delivered again; while 75,000 wait for a team, and 1,000 for a webhook, nothing more is asked to wait for it', async () => {
  const [webhook, other] = [await made(), await made()];
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.unshift((await deliver(webhook)).id);
  const pages = await readPages(2, (query) => by.ask('get', `${pathOf(webhook)}/deliveries?${query}`));
  assert.equal(column(pages.flat(), 'id'), ids);
  assert.equal(column(pages, 'length'), [2, 2, 1]);
  for (const id of [newId('dlv'), ids[0]!, 'x'])
    await refused(40461, by.ask('post', `${pathOf(other)}/delivery/${id}/redeliver`), id);
  await fillWith(world.sql, { teamId, webhookId: webhook.id, deliveries: 75_001 });
  await refused(40962, by.ask('post', `${pathOf(webhook)}/test`));
});
