import { Webhook } from 'standardwebhooks';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { webhookSealer } from '../../shared/values/webhook-secret.ts';
import { makeWorld, must, newWorkspace } from '../../tests/helpers/world.ts';
import type { Outcome } from './call.ts';
import { claim, type Claimed, countWaiting, noteTry, type Noted, RETRIES_MS, retryAfterMs } from './claim.ts';
import { messageOf } from './deliver.ts';

// Deliveries, one try at a time: the test claims, answers in the receiver's place, and notes. How a receiver is called: call.test.ts.

const OTHER = `whsec_${'A'.repeat(43)}=`;
const OK: Outcome = { status: 200, durationMs: 1 };
const world = await makeWorld([]);
const workspaceId = await newWorkspace(world);

async function claimNow(underWay: string[] = [], { slow = false, perWebhook = 100 } = {}) {
  return (await claim(world.sql, { slow, after: '', underWay, most: 1_000, perWebhook })).claimed;
}

function note(claimed: Claimed, outcome: Outcome): Promise<Noted> {
  return noteTry(world.sql, { claimed, outcome, atMs: Date.now(), random: 0 }, RETRIES_MS);
}

async function newWebhook(events: string[], url = 'https://hooks.example.com/in') {
  const { webhook } = (await must(201, world.call('post', '/api/v1/webhook', { url, events }))).body;
  const path = `/api/v1/webhook/${webhook.id}`;
  const ofIt = ({ webhookId }: Claimed) => webhookId === webhook.id;
  return {
    id: webhook.id as string,
    secret: webhook.secret as string,
    path,
    read: async () => (await must(200, world.call('get', path))).body.webhook,
    patch: (body: object) => must(200, world.call('patch', path, body)),
    sendTest: async () => (await must(201, world.call('post', `${path}/test`))).body.delivery,
    deliveries: async () => (await must(200, world.call('get', `${path}/deliveries`))).body.deliveries,
    claimOne: async () => (await claimNow()).find(ofIt)!,
    /** Tries what is due, each answered so; gives what was sent. */
    async tryAll(outcome = OK) {
      const claimed = (await claimNow()).filter(ofIt);
      const sealer = webhookSealer([Buffer.from(world.env.MASTER_KEY!, 'base64')]);
      const sent = claimed.map((one) => messageOf(one, sealer, new Date()));
      for (const one of claimed) await note(one, outcome);
      return sent;
    },
    /** Makes what waits due, and ends claims. */
    dueNow: () => world.sql`
      update webhook_deliveries set next_at = now(), claimed_until = null where webhook_id = ${webhook.id} and state = 'WAITING'`,
  };
}

type Sent = ReturnType<typeof messageOf>;
type Body = { type: string; sequence: number; workspaceId: string; data: Record<string, unknown> };
const verify = (secret: string, { body, headers }: Sent) => new Webhook(secret).verify(body, headers) as Body;
const newKey = async () =>
  (await must(201, world.call('post', '/api/v1/api-key', { name: 'first', workspaceId }))).body.apiKey;

test('an event is signed as the standard says, with its sequence and no secret', async () => {
  const webhook = await newWebhook(['key.created', 'key.rotated', 'key.deleted']);
  assert.match(webhook.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const key = await newKey();
  const path = `/api/v1/workspace/${workspaceId}/api-key/${key.id}`;
  await must(200, world.call('post', `${path}/rotate`));
  for (let twice = 0; twice < 2; twice++) await must(200, world.call('delete', path));
  const sent = await webhook.tryAll();
  const told = sent.map((one) => verify(webhook.secret, one)).toSorted((a, b) => a.sequence - b.sequence);
  assert.equal(
    told.map(({ type, sequence, data, ...one }) => [type, sequence, one.workspaceId, data['apiKeyId'], data['name']]),
    ['key.created', 'key.rotated', 'key.deleted'].map((type, i) => [type, i + 1, workspaceId, key.id, 'first']),
  );
  assert.not.match(JSON.stringify(sent), key.key);
  assert.is(new Set(sent.map(({ headers }) => headers['webhook-id'])).size, 3);
  assert.throws(() => verify(OTHER, sent[0]!));
  await must(200, world.call('delete', webhook.path));
});

test('for a day after a rotation both secrets sign, then the new one alone', async () => {
  const webhook = await newWebhook(['key.created']);
  const rotate = (body?: object) => world.call('post', `${webhook.path}/rotate`, body);
  const next = async () => {
    await webhook.sendTest();
    return (await webhook.tryAll())[0]!;
  };
  const { secret } = (await must(200, rotate())).body.webhook;
  const both = await next();
  for (const one of [webhook.secret, secret]) verify(one, both);
  const [row] = await world.sql<{ hours: number }[]>`
    select extract(epoch from previous_until - updated_at)::float / 3600 as hours from webhooks where id = ${webhook.id}`;
  assert.is(row!.hours, 24);
  assert.is((await must(409, rotate())).body.error.code, 40963, 'the receiver may still have the first secret');
  const { secret: latest } = (await must(200, rotate({ replaceLatest: true }))).body.webhook;
  const replaced = await next();
  for (const one of [webhook.secret, latest]) verify(one, replaced);
  assert.throws(() => verify(secret, replaced), /No matching signature/);
  await world.sql`update webhooks set previous_until = now() where id = ${webhook.id}`;
  const alone = await next();
  verify(latest, alone);
  assert.throws(() => verify(webhook.secret, alone), /No matching signature/);
});

test('a refused event is tried again after 5 s, 5 min, 30 min, 2 h … with jitter under one id, and fails after ten tries', async () => {
  const seconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
  const pauses = (random: number) => seconds.map((_, i) => retryAfterMs(RETRIES_MS, i + 1, random)! / 1_000);
  assert.equal([pauses(0), pauses(1)], [seconds, seconds.map((one) => Math.round(one * 1_100) / 1_000)]);
  assert.is(retryAfterMs(RETRIES_MS, 10, 0), undefined);

  const webhook = await newWebhook(['key.created']);
  await webhook.sendTest();
  const ids = new Set<string>();
  const tryOnce = async (outcome: Outcome) => {
    for (const { headers } of await webhook.tryAll(outcome)) ids.add(headers['webhook-id']!);
    const [{ state, tries }] = await webhook.deliveries();
    return `${state} ${tries.length}`;
  };
  for (let tries = 1; tries <= 9; tries++) {
    assert.is(await tryOnce({ status: 500, answer: 'no', durationMs: 1 }), `WAITING ${tries}`);
    assert.is((await webhook.tryAll()).length, 0, 'it is not due yet');
    await webhook.dueNow();
  }
  assert.is(await tryOnce({ error: 'no answer', durationMs: 1 }), 'FAILED 10');
  const [failed] = await webhook.deliveries();
  assert.equal([failed.tries[0].status, failed.tries[0].answer], [500, 'no']);
  for (const wanted of ['DELIVERED 11', 'DELIVERED 12']) {
    await must(200, world.call('post', `${webhook.path}/delivery/${failed.id}/redeliver`));
    assert.is(await tryOnce(OK), wanted);
  }
  assert.is((await webhook.read()).failingSince, undefined);
  assert.is(ids.size, 1);
});

test('an answer 410 disables a webhook at once; the audit log and the list tell', async () => {
  const webhook = await newWebhook(['key.created']);
  await webhook.sendTest();
  await webhook.tryAll({ status: 410, durationMs: 1 });
  const read = await webhook.read();
  assert.equal([read.enabled, read.disabledReason], [false, 'GONE']);
  const { auditLog } = (await must(200, world.call('get', `/api/v1/audit-log?resourceId=${webhook.id}`))).body;
  assert.ok(auditLog.some((entry: any) => entry.operation === 'webhook disabled' && !entry.tokenId));
  await newKey();
  assert.is((await world.call('post', `${webhook.path}/test`)).body.error.code, 40961);
  assert.is((await webhook.deliveries()).length, 1, 'it was told nothing while disabled');
  await webhook.patch({ enabled: true });
  const enabled = await webhook.read();
  assert.equal([enabled.enabled, enabled.disabledReason, enabled.failingSince], [true, undefined, undefined]);
});

test('five days of failure disable a webhook, less do not, and a success between them starts again', async () => {
  const webhook = await newWebhook(['key.created']);
  await webhook.sendTest();
  const failFor = async (days: number) => {
    await world.sql`update webhooks set failing_since = now() - ${days} * interval '1 day' where id = ${webhook.id}`;
    await webhook.dueNow();
    await webhook.tryAll({ status: 500, durationMs: 1 });
    const { enabled, disabledReason } = await webhook.read();
    return [enabled, disabledReason];
  };
  assert.equal(await failFor(4.99), [true, undefined]);
  await webhook.dueNow();
  await webhook.tryAll();
  assert.is((await webhook.read()).failingSince, undefined);
  await webhook.sendTest();
  assert.equal(await failFor(5.01), [false, 'FAILING']);
});

test('what the earlier URL of a webhook answers does not disable the new one, or say that it fails or is slow', async () => {
  for (const status of [410, 500]) {
    const webhook = await newWebhook(['key.created']);
    await webhook.sendTest();
    const claimed = await webhook.claimOne();
    await webhook.patch({ url: 'https://new.example.com' });
    await note(claimed, { status, durationMs: 9_000 });
    const { enabled, disabledReason, failingSince } = await webhook.read();
    assert.equal([enabled, disabledReason, failingSince], [true, undefined, undefined]);
    const [row] = await world.sql`select is_slow from webhooks where id = ${webhook.id}`;
    assert.is(row!['isSlow'], false);
  }
});

test('a receiver that never answers has at most eight under way, and holds up nobody else; a slow one has room of its own', async () => {
  const [stuck, quick] = [await newWebhook(['key.created']), await newWebhook(['key.created'])];
  for (let i = 0; i < 12; i++) await stuck.sendTest();
  const count = (claimed: Claimed[], { id }: { id: string }) =>
    claimed.filter(({ webhookId }) => webhookId === id).length;
  assert.is(count(await claimNow([], { perWebhook: 8 }), stuck), 8);
  for (let i = 0; i < 3; i++) await quick.sendTest();
  const next = await claimNow(Array<string>(8).fill(stuck.id), { perWebhook: 8 });
  assert.equal([count(next, stuck), count(next, quick)], [0, 3]);
  await note(
    next.find(({ webhookId }) => webhookId === quick.id)!,
    { status: 200, durationMs: 2_001 },
  );
  await quick.sendTest();
  assert.is(count(await claimNow(), quick), 0);
  assert.is(count(await claimNow([], { slow: true }), quick), 1);
});

test('a process that dies while it tries loses nothing: once its claim has ended, another one delivers under the same id', async () => {
  const webhook = await newWebhook(['key.created']);
  const { eventId } = await webhook.sendTest();
  const dead = await webhook.claimOne();
  assert.is(await webhook.claimOne(), undefined, 'one at a time');
  await webhook.dueNow();
  const heir = await webhook.claimOne();
  assert.equal([dead.eventId, heir.eventId], [eventId, eventId]);
  assert.equal(await note(dead, { status: 500, durationMs: 1 }), 'LOST', 'should it live after all');
  assert.equal(await note(heir, OK), 'DELIVERED');
});

test('how long the oldest delivery has been due is told, without those of a slow receiver or of a webhook that is disabled', async () => {
  const webhook = await newWebhook(['key.created']);
  await webhook.sendTest();
  await world.sql`update webhook_deliveries set next_at = now() + interval '1 hour' where state = 'WAITING'`;
  const due = async () => Math.floor((await countWaiting(world.sql)).dueSeconds / 60);
  assert.is(await due(), 0);
  await world.sql`update webhook_deliveries set next_at = now() - interval '10 minutes' where webhook_id = ${webhook.id}`;
  assert.is(await due(), 10);
  for (const slow of [true, false]) {
    await world.sql`update webhooks set is_slow = ${slow}, enabled = ${slow} where id = ${webhook.id}`;
    assert.is(await due(), 0);
  }
});

test('who claims learns when the next delivery is due, and of one that is due now', async () => {
  await (await newWebhook(['key.created'])).sendTest();
  const dueInMs = async (after: string) => {
    await world.sql`update webhook_deliveries set next_at = now() + ${after}::text::interval where state = 'WAITING'`;
    return (await claim(world.sql, { slow: true, after: '', underWay: [], most: 1_000, perWebhook: 100 })).dueInMs;
  };
  const inAnHour = await dueInMs('1 hour');
  assert.ok(inAnHour > 1_800_000 && inAnHour <= 3_600_000, String(inAnHour));
  assert.ok((await dueInMs('0 seconds')) <= 0);
});
