import { Webhook } from 'standardwebhooks';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../tests/helpers/customers.ts';
import { eventually } from '../../tests/helpers/eventually.ts';
import type { Got } from './helpers/receiver.ts';
import { RETRIES_MS } from './retries.ts';
import { makeWebhooksWorld, type TestDelivery, type WebhooksWorld } from './helpers/webhooks-world.ts';

const test = suite('delivering to webhooks');
let own: WebhooksWorld;
// What the second receiver answers, and whether the third answers at all.
let status = 200;
let isSilent = true;
// How many wait for the third one's answer, now and at most.
let [underWay, most] = [0, 0];

const SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
// By default, but for the first: within 5 s a busy machine may not see that a try failed before the next one is made.
const waited = [600, ...SECONDS.slice(1)];

test.before(async () => {
  own = await makeWebhooksWorld({
    receivers: 3,
    retries: waited.join(','),
    answers: [
      undefined,
      (_, response) => void response.writeHead(status).end(`status ${status}`),
      (_, response) => {
        most = Math.max(most, ++underWay);
        response.once('close', () => (underWay -= 1));
        if (!isSilent) response.end();
      },
    ],
  });
});
test.after(() => own?.stop());

const TRIES = 3;
const endOf = ({ at, durationMs }: TestDelivery['tries'][number]) => Date.parse(at) + durationMs;
const idOf = ({ headers }: Got) => headers['webhook-id'] as string;
const headersOf = ({ headers }: Got) => headers as Record<string, string>;

test('an event arrives signed as the standard says, with its sequence and no secret', async () => {
  const receiver = own.receivers[0]!;
  const webhook = await own.newWebhook(receiver.url, ['key.created', 'key.rotated', 'key.deleted']);
  assert.match(webhook.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const key = (
    await must(201, own.world.call('post', '/api/v1/api-key', { name: 'first', workspaceId: own.workspaceId }))
  ).body.apiKey;
  await eventually('it arrives', async () => receiver.got.length === 1);
  await own.ended(webhook.id, 'DELIVERED', 1);
  const keyPath = `/api/v1/workspace/${own.workspaceId}/api-key/${key.id}`;
  await must(200, own.world.call('post', `${keyPath}/rotate`));
  await must(200, own.world.call('delete', keyPath));
  await must(200, own.world.call('delete', keyPath));
  await eventually('the others arrive', async () => receiver.got.length === 3);
  const verified = receiver.got.map((got) => new Webhook(webhook.secret).verify(got.body, headersOf(got)) as Body);
  const told = verified.toSorted((a, b) => a.sequence - b.sequence);
  assert.equal(
    told.map(({ type, sequence, workspaceId, data }) => [type, sequence, workspaceId, data['apiKeyId'], data['name']]),
    ['key.created', 'key.rotated', 'key.deleted'].map((type, i) => [type, i + 1, own.workspaceId, key.id, 'first']),
  );
  assert.not.match(JSON.stringify(receiver.got), key.key);
  assert.is(new Set(receiver.got.map(idOf)).size, 3);
  assert.throws(() =>
    new Webhook(`whsec_${'A'.repeat(43)}=`).verify(receiver.got[0]!.body, headersOf(receiver.got[0]!)),
  );
  await must(200, own.world.call('delete', `/api/v1/webhook/${webhook.id}`));
});

type Body = { type: string; timestamp: string; sequence: number; workspaceId: string; data: Record<string, unknown> };

test('for a day after a rotation both secrets sign, then the new one alone', async () => {
  const receiver = own.receivers[0]!;
  const old = await own.newWebhook(receiver.url, ['key.created']);
  const { secret } = (await must(200, own.world.call('post', `/api/v1/webhook/${old.id}/rotate`))).body.webhook;
  assert.is.not(secret, old.secret);
  const next = async () => {
    const before = receiver.got.length;
    await own.sendTest(old.id);
    await eventually('it arrives', async () => receiver.got.length > before);
    return receiver.got.at(-1)!;
  };
  const both = await next();
  for (const one of [old.secret, secret]) new Webhook(one).verify(both.body, headersOf(both));
  const [{ hours }] = await own.world.sql<[{ hours: number }]>`
    select extract(epoch from previous_until - updated_at)::float / 3600 as hours from webhooks where id = ${old.id}`;
  assert.is(hours, 24);
  const rotate = (body?: object) => own.world.call('post', `/api/v1/webhook/${old.id}/rotate`, body);
  assert.is((await must(409, rotate())).body.error.code, 40963, 'the receiver may still have the first secret');
  await must(409, rotate({ replaceLatest: false }));
  const until = async () => {
    const [row] = await own.world.sql<{ at: number }[]>`
      select extract(epoch from previous_until)::float as at from webhooks where id = ${old.id}`;
    return Math.floor(row!.at);
  };
  const before = await until();
  const { secret: latest } = (await must(200, rotate({ replaceLatest: true }))).body.webhook;
  assert.is(await until(), before);
  const replaced = await next();
  for (const one of [old.secret, latest]) new Webhook(one).verify(replaced.body, headersOf(replaced));
  assert.throws(() => new Webhook(secret).verify(replaced.body, headersOf(replaced)), /No matching signature/);

  await own.world.sql`update webhooks set previous_until = now() where id = ${old.id}`;
  const alone = await next();
  new Webhook(latest).verify(alone.body, headersOf(alone));
  assert.throws(() => new Webhook(old.secret).verify(alone.body, headersOf(alone)), /No matching signature/);
  const { secret: third } = (await must(200, rotate())).body.webhook;
  const again = await next();
  for (const one of [latest, third]) new Webhook(one).verify(again.body, headersOf(again));
  await must(200, own.world.call('delete', `/api/v1/webhook/${old.id}`));
});

test('a refused event is tried again after 5 s, 5 min, 30 min, 2 h … with jitter under one id, and fails after ten tries', async () => {
  const receiver = own.receivers[1]!;
  status = 500;
  const webhook = await own.newWebhook(receiver.url, ['key.created']);
  await own.sendTest(webhook.id);
  const pauses: number[] = [];
  for (let tries = 1; tries <= 9; tries++) {
    const { nextTryAt, tries: made } = await own.ended(webhook.id, 'WAITING', tries);
    pauses.push((Date.parse(nextTryAt!) - Date.parse(made.at(-1)!.at)) / 1000);
    await own.dueNow(webhook.id);
  }
  const { tries } = await own.ended(webhook.id, 'FAILED', 10);
  for (const [i, pause] of pauses.entries())
    assert.ok(pause >= waited[i]! && pause < waited[i]! * 1.1 + 15, `pause ${i + 1}: ${pause} s`);
  assert.equal(
    RETRIES_MS.map((ms) => ms / 1000),
    SECONDS,
  );
  assert.equal([tries[0]!.status, tries[0]!.answer], [500, 'status 500']);
  assert.is(new Set(receiver.got.map(idOf)).size, 1);

  status = 200;
  const [failed] = await own.deliveries(webhook.id);
  const path = `/api/v1/webhook/${webhook.id}/delivery/${failed!.id}/redeliver`;
  assert.is((await must(200, own.world.call('post', path))).body.delivery.state, 'WAITING');
  await own.ended(webhook.id, 'DELIVERED', 11);
  assert.is((await own.read(webhook.id)).failingSince, undefined);
  await must(200, own.world.call('post', path));
  await own.ended(webhook.id, 'DELIVERED', 12);
  assert.is(new Set(receiver.got.map(idOf)).size, 1);
});

test('an answer 410 disables a webhook at once; the audit log and the list tell', async () => {
  status = 410;
  const webhook = await own.newWebhook(own.receivers[1]!.url, ['key.created']);
  await own.sendTest(webhook.id);
  await own.ended(webhook.id, 'FAILED', 1);
  const read = await own.read(webhook.id);
  assert.equal([read.enabled, read.disabledReason], [false, 'GONE']);
  const { auditLog } = (await must(200, own.world.call('get', `/api/v1/audit-log?resourceId=${webhook.id}`))).body;
  assert.ok(
    auditLog.some((entry: Record<string, unknown>) => entry['operation'] === 'webhook disabled' && !entry['tokenId']),
    JSON.stringify(auditLog),
  );
  await own.newKey();
  const refused = await own.world.call('post', `/api/v1/webhook/${webhook.id}/test`);
  assert.is(refused.body.error.code, 40961);
  assert.is((await own.deliveries(webhook.id)).length, 1, 'it was told nothing while disabled');
  status = 200;
  const body = { enabled: true };
  const { webhook: enabled } = (await must(200, own.world.call('patch', `/api/v1/webhook/${webhook.id}`, body))).body;
  assert.equal([enabled.enabled, enabled.disabledReason, enabled.failingSince], [true, undefined, undefined]);
});

test('five days of failure disable a webhook, less do not, and a success between them starts again', async () => {
  status = 500;
  const webhook = await own.newWebhook(own.receivers[1]!.url, ['key.created']);
  await own.sendTest(webhook.id);
  await own.ended(webhook.id, 'WAITING', 1);
  const failingFor = (days: number) =>
    own.world.sql`update webhooks set failing_since = now() - ${days} * interval '1 day' where id = ${webhook.id}`;
  await failingFor(4.9);
  await own.dueNow(webhook.id);
  await own.ended(webhook.id, 'WAITING', 2);
  assert.is((await own.read(webhook.id)).enabled, true);
  await failingFor(5.1);
  await own.dueNow(webhook.id);
  await own.ended(webhook.id, 'WAITING', 3);
  const read = await own.read(webhook.id);
  assert.equal([read.enabled, read.disabledReason], [false, 'FAILING']);
  status = 200;
  await must(200, own.world.call('patch', `/api/v1/webhook/${webhook.id}`, { enabled: true }));
  await own.dueNow(webhook.id);
  await own.ended(webhook.id, 'DELIVERED', 4);
});

test('a receiver that never answers has at most eight under way, and holds up nobody else', async () => {
  const [quick, , silent] = own.receivers;
  let isFirst = false;
  // The silent one is waited for 10 s; a busy machine may need longer for the others now and then.
  for (let tries = 0; tries < TRIES && !isFirst; tries++) {
    const stuck = await own.newWebhook(silent!.url, ['key.deleted']);
    for (let i = 0; i < 20; i++) await own.sendTest(stuck.id);
    await eventually('eight are under way', async () => underWay === 8);
    const webhook = await own.newWebhook(quick!.url, ['key.created']);
    const before = quick!.got.length;
    await Promise.all(Array.from({ length: 50 }, () => own.newKey()));
    await eventually('all arrive', async () => quick!.got.length === before + 50);
    assert.is(most, 8);
    const given = await eventually('it is given up', async () => {
      const found = (await own.deliveries(stuck.id)).flatMap((delivery) => delivery.tries);
      return found.toSorted((a, b) => endOf(a) - endOf(b))[0];
    });
    assert.is(given.error, 'no whole answer within 10 s');
    const [delivered] = await own.world.sql<[{ count: number; lastAt: Date }]>`
      select count(*) as count, max(ended_at) as last_at from webhook_deliveries
      where webhook_id = ${webhook.id} and state = 'DELIVERED'`;
    isFirst = delivered.count === 50 && delivered.lastAt.getTime() < endOf(given);
    for (const { id } of [stuck, webhook]) await must(200, own.world.call('delete', `/api/v1/webhook/${id}`));
    await eventually('none is under way', async () => underWay === 0);
  }
  assert.ok(isFirst, 'all were delivered before the first one of the silent receiver was given up');
});

test('a program that is killed while it tries loses nothing and holds up nothing else: another one delivers under the same ids', async () => {
  const silent = own.receivers[2]!;
  const webhook = await own.newWebhook(silent.url, ['key.rotated']);
  const before = silent.got.length;
  const { eventId } = await own.sendTest(webhook.id);
  await eventually('it is being tried', async () => silent.got.slice(before).some((got) => idOf(got) === eventId));
  for (let i = 0; i < 10; i++) await own.sendTest(webhook.id);
  // They stay longer than a busy machine takes until the other program has delivered.
  const held = async () => {
    const rows = await own.world.sql`
      update webhook_deliveries set claimed_until = now() + interval '10 minutes', next_at = now() + interval '10 minutes'
      where webhook_id = ${webhook.id} and claimed_until > now()`;
    return rows.count;
  };
  await eventually('the room of the webhook is full', async () => (await held()) === 8);
  await own.delivering.stop('SIGKILL');
  isSilent = false;
  const other = await own.startDelivering();
  const isDelivered = async (count: number) =>
    (await own.deliveries(webhook.id)).filter(({ state }) => state === 'DELIVERED').length >= count;
  await eventually('those that were not under way are delivered at once', () => isDelivered(3));
  assert.is(await held(), 8, 'the claims of the program that died have not ended');
  await other.stop('SIGTERM');
  assert.is(other.process.exitCode, 0);
  // As if the 30 s had passed, after which a claim ends.
  await own.world
    .sql`update webhook_deliveries set claimed_until = now(), next_at = now() where claimed_until is not null`;
  const next = await own.startDelivering();
  await eventually('all are delivered', () => isDelivered(11));
  assert.ok(silent.got.filter((got) => idOf(got) === eventId).length >= 2);
  await next.stop('SIGTERM');
});

test.run();
