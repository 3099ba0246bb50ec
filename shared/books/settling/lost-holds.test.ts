import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { BEGIN_MS, connectClockedRedis } from '../../../tests/helpers/clocked-redis.ts';
import { testLine } from '../../../tests/helpers/events.ts';
import { connectTestStores } from '../../../tests/helpers/test-stores.ts';
import { openShard, RUN_ID, SHARD } from '../../../tests/accounts/test-shard.ts';
import { eventColumns, eventRow, readEvents } from '../../events/event.ts';
import { NEVER, packAccountSettings, PLAIN_CLASS } from '../../stores/account-settings.ts';
import { keyspace } from '../../stores/keyspace.ts';
import { newId } from '../../values/ids.ts';
import { emptyBalance } from '../balances.ts';
import { billingKey, type BillingRef } from '../billing-refs.ts';
import { settleHolds } from './lost-holds.ts';

const EPOCH = 2;
const NOON = BEGIN_MS + 12 * 3_600_000;
const DAY_MS = 86_400_000;
const workspaceId = newId('ws');

const { books } = await connectTestStores();
const { redis, setNow } = await connectClockedRedis();
const { client } = redis.node(0);
const stores = { books, redis: { ...redis, now: async () => NOON } };

test('of a hold that lost its first line the others are put right, but not where it may be older than what is read', async () => {
  await setNow(NOON);
  await openShard(client, workspaceId, EPOCH);
  const young = await recordWith([testLine('release', { timeMs: NOON - DAY_MS })]);
  const old = await recordWith([
    testLine('extension', { timeMs: NOON - 8 * DAY_MS }),
    testLine('release', { timeMs: NOON - 7 * DAY_MS, sequence: 2 }),
  ]);
  const balances = [young, old].map((billing) => emptyBalance(billing, EPOCH));
  const grant = () => ({ fence: RUN_ID, epoch: EPOCH });
  // Once: what was put right stays so.
  for (let times = 2; times > 0; times--) {
    const failed = await settleHolds(stores, balances, grant, async () => {});
    assert.equal(
      failed.map(({ error }) => String(error)),
      [],
    );
  }
  const entries = await client.xrange(keyspace.outbox(SHARD), '-', '+');
  const corrections = entries.flatMap(([, entry]) => readEvents(entry)).filter(({ kind }) => kind === 'correction');
  assert.equal(
    corrections.map(({ billingId, holdMicros, detail }) => [billingId, holdMicros, detail]),
    [[young.id, 1, 'lost']],
  );
});

/** A record of which the books have lines of a hold that Redis has lost. */
async function recordWith(lines: ReturnType<typeof testLine>[]): Promise<BillingRef> {
  const id = newId('bill');
  const billing = { id, shard: SHARD, workspaceId, externalMeterId: id };
  const answerPart = '"totalCredits":"1","allowOverages":false';
  const plain = { ref: PLAIN_CLASS, priority: 50, endsAtMs: NEVER, rollEndsAtMs: 0, rollMaxMicros: 0 };
  const classes = [{ ...plain, firstVersion: 1, begunMicros: 1_000_000, pending: [] }];
  await client.hset(billingKey(billing), {
    s: packAccountSettings({ version: 1, billingId: id, answerPart }, classes),
    u: '0',
  });
  const holdId = newId('evt').slice('evt_'.length);
  const values = lines.map((line) => eventRow({ ...line, billingId: id, workspaceId, holdId, epoch: EPOCH - 1 }));
  await books.client.insert({
    table: 'usage_events',
    values,
    columns: [...eventColumns],
    format: 'JSONCompactEachRow',
  });
  return billing;
}
