import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../shared/values/ids.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';
import { notifyMoments } from './notify-moments.ts';
import { column } from '../../tests/helpers/columns.ts';

const own = await makeConsumerWorld();

// To come, so that no row was made after it.
const NOON = Date.UTC(2040, 2, 10, 12);

/** A workspace with a key that expires at an instant, and a grant from an instant to another one. */
async function makeEnding(expiresAt: number, grant: { beginsAt: number; expiresAt: number }) {
  const { sql, team } = own;
  const { workspaceId, keyId, billingId } = await own.storeKeyAndBilling();
  const grantId = newId('grant');
  await sql`update api_keys set expires_at = ${expiresAt} where id = ${keyId}`;
  await sql`
    insert into grants (id, team_id, billing_id, class, amount_micros, priority, begins_at, expires_at)
    values (${grantId}, ${team.id}, ${billingId}, 'c', 1, 50, ${grant.beginsAt}, ${grant.expiresAt})`;
  await own.listen(workspaceId);
  return {
    workspaceId,
    keyId,
    billingId,
    grantId,
    told: async () =>
      (
        await sql<{ type: string }[]>`select type from webhook_events where workspace_id = ${workspaceId} order by type`
      ).map(({ type }) => type),
  };
}

test('what begins, ends, and ends soon is told in its millisecond, once; a deleted workspace is told of nothing', async () => {
  const times = [NOON + DAY_MS, { beginsAt: NOON, expiresAt: NOON + DAY_MS }] as const;
  const [alive, deleted] = [await makeEnding(...times), await makeEnding(...times)];
  await own.sql`update workspaces set deleted_at = now() where id = ${deleted.workspaceId}`;
  await notifyMoments(own.sql, NOON - 1_000, NOON - 1);
  assert.equal(await alive.told(), []);
  for (let twice = 0; twice < 2; twice++) await notifyMoments(own.sql, NOON - 1, NOON);
  assert.equal(await alive.told(), ['grant.began', 'grant.expiring', 'key.expiring']);
  await notifyMoments(own.sql, NOON, NOON + DAY_MS);
  assert.equal(await alive.told(), ['grant.began', 'grant.expired', 'grant.expiring', 'key.expiring']);
  assert.equal(await deleted.told(), []);
  const rows = await own.sql<{ type: string; data: Record<string, unknown> }[]>`
    select type, data from webhook_events where workspace_id = ${alive.workspaceId} and type like '%.expiring' order by type`;
  const { billingId, grantId, keyId: apiKeyId } = alive;
  const ends = { daysLeft: 1, expiresAt: NOON + DAY_MS };
  assert.equal(column(rows, 'data'), [
    { billingId, grantId, externalMeterId: 'm', credits: '0.000001', beginsAt: NOON, ...ends },
    { apiKeyId, name: 'k', maskedKey: '', ...ends },
  ]);
});

test('what was stored while a consumer looked is told at the next look, however late that comes', async () => {
  const looked = Date.UTC(2020, 2, 10, 12);
  const stored = await makeEnding(looked + 2 * DAY_MS, { beginsAt: looked - 1_000, expiresAt: looked + 3 * DAY_MS });
  await own.sql`
    update grants g set created_at = ${new Date(looked - 1_000)}
    from billing_records b where b.id = g.billing_id and b.workspace_id = ${stored.workspaceId}`;
  await notifyMoments(own.sql, looked, looked + 1);
  assert.equal(await stored.told(), ['grant.began']);
});
