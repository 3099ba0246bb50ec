import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../tests/helpers/world.ts';
import type { Outcome } from './call.ts';
import { claim, type Claimed } from './claim.ts';
import { noteTries } from './note-tries.ts';

// What a try says of its webhook, where the webhook changes while the try is under way.

let world: World;
const test = suite('noting tries');
test.before(async () => void (world = await makeWorld([])));
test.after(() => world?.stop());

const EARLIER = 'https://earlier.example.com';

/** A webhook of which a delivery was claimed, for its URL. */
async function claimedOf(url: string): Promise<{ path: string; claimed: Claimed }> {
  const body = { url, events: ['key.created'] };
  const { id } = (await must(201, world.call('post', '/api/v1/webhook', body))).body.webhook;
  const path = `/api/v1/webhook/${id}`;
  await must(201, world.call('post', `${path}/test`));
  const eager = { ids: [], perWebhook: 1, most: 1 };
  const options = { slow: false, after: '', underWay: new Map(), most: 100, perWebhook: 10, eager };
  const page = await claim(world.sql, options);
  return { path, claimed: page.claimed.find(({ webhookId }) => webhookId === id)! };
}

const note = (claimed: Claimed, outcome: Outcome) =>
  noteTries(world.sql, [{ claimed, outcome, atMs: Date.now(), random: 0 }], [0, 5_000]);

test('what the earlier URL of a webhook answers does not disable the new one, or say that it fails or is slow', async () => {
  for (const status of [410, 500]) {
    const { path, claimed } = await claimedOf(EARLIER);
    await must(200, world.call('patch', path, { url: 'https://new.example.com' }));
    await note(claimed, { status, durationMs: 9_000 });
    const { webhook } = (await must(200, world.call('get', path))).body;
    assert.equal([webhook.enabled, webhook.disabledReason, webhook.failingSince], [true, undefined, undefined]);
    const [row] = await world.sql`select is_slow from webhooks where id = ${claimed.webhookId}`;
    assert.is(row!['isSlow'], false);
  }
});

test('what the URL of a webhook answers does', async () => {
  const { path, claimed } = await claimedOf(EARLIER);
  await must(200, world.call('patch', path, { events: ['key.deleted'] }));
  await note(claimed, { status: 410, durationMs: 1 });
  const { webhook } = (await must(200, world.call('get', path))).body;
  assert.equal([webhook.enabled, webhook.disabledReason], [false, 'GONE']);
});

test.run();
