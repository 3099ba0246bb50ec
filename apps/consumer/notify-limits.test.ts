import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limit } from '../../shared/contract/limits.ts';
import { beginCount, encodeRefusal, OTHER, type RefusalCount } from '../../shared/events/outcome.ts';
import { newId } from '../../shared/values/ids.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';
import { column } from '../../tests/helpers/columns.ts';

const own = await makeConsumerWorld();

const DAY = 86_400_000;
const timeMs = Date.now();
const MINUTE = Math.floor(timeMs / 60_000) * 60;
const RATE_LIMITED = { status: 'RATE_LIMITED', reason: 'RATE_LIMIT', route: '' };
const daily: Limit = { name: 'a/b', unit: 'requests', limit: 1, per: 'day' };

/** A key with a daily limit, a record of its meter with a monthly one, and who hears of them. */
async function makeLimited() {
  const { sql } = own;
  const { workspaceId, keyId, billingId } = await own.storeKeyAndBilling();
  await sql`update api_keys set external_meter_id = 'm', limits = ${sql.json([daily])} where id = ${keyId}`;
  const monthly = sql.json([{ ...daily, name: 'monthly', per: 'month' }]);
  await sql`update billing_records set limits = ${monthly} where id = ${billingId}`;
  const told = await own.listen(workspaceId);
  const count = (limit: string, more: Partial<RefusalCount> = {}) => {
    const of = { boot: 'boot', minuteSeconds: MINUTE, teamId: own.team.id, workspaceId, keyId };
    return `${beginCount({ ...of, ...RATE_LIMITED, limit, wouldRefuse: 0, ...more })}1}`;
  };
  return { workspaceId, keyId, billingId, told: () => told('limit.reached'), count };
}

async function consume(...lines: string[]): Promise<void> {
  await own.appendEntry(3, ...lines);
  await own.carry();
}

test('a limit is told by a count alone: where the refusals of others left no room for one', async () => {
  const { keyId, billingId, told: read, count } = await makeLimited();
  await consume(count('key/a/b'), count('billing/monthly'));
  const told = await read();
  const starts = Math.floor((MINUTE * 1000) / DAY) * DAY;
  const ofKey = told.find(({ subjectId }) => subjectId === keyId)!;
  assert.equal(ofKey.data, {
    limit: { on: 'key', name: 'a/b', per: 'day' },
    windowStartsAt: starts,
    windowEndsAt: starts + DAY,
    apiKeyId: keyId,
  });
  const ofRecord = told.find(({ subjectId }) => subjectId === billingId)!;
  assert.equal([ofRecord.data['billingId'], ofRecord.data['externalMeterId']], [billingId, 'm']);
  assert.is(told.length, 2);
});

test('a count and a refusal of one call are told once, at the time of the refusal', async () => {
  const { workspaceId, keyId, told, count } = await makeLimited();
  const limitedBy = JSON.stringify({ on: 'key', name: 'a/b', limit: 1 });
  const refusal = { id: newId('evt'), timeMs, workspaceId, keyId, meter: 'm', ...RATE_LIMITED, limitedBy, address: '' };
  await consume(encodeRefusal(refusal), count('key/a/b'));
  await consume(count('key/a/b', { boot: 'another' }), count('key/a/b', { boot: 'third' }));
  assert.equal(column(await told(), 'at'), [timeMs]);
});

test('a count of what only watches, of seconds, or of an unnamed key or limit tells nothing', async () => {
  const { told, count } = await makeLimited();
  await consume(
    count('key/a/b', { wouldRefuse: 1 }),
    count('key/rateLimitPerSecond'),
    count(OTHER),
    count('key/a/b', { keyId: OTHER }),
    count('', { status: 'DISABLED', reason: 'DISABLED' }),
  );
  assert.is((await told()).length, 0);
});
