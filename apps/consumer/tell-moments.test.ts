import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { webhookEventTypes } from '../../shared/contract/webhook-events.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import { makeCustomers, must } from '../../tests/helpers/customers.ts';
import { inTime } from '../../tests/helpers/in-time.ts';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { startTellingMoments } from './tell-moments.ts';

let world: World;
const test = suite('telling what the clock brings');
test.before(async () => void (world = await makeWorld([])));
test.after(() => world?.stop());

/** A workspace with a key and grants that begin and end soon, or in a day. */
async function makeEnding(soon: number): Promise<string> {
  const { id } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'ending' }))).body.workspace;
  const customers = makeCustomers(world, id);
  await customers.newKey({ expiresAt: soon + DAY_MS });
  const billing = await customers.billing(await customers.newMeter({ totalCredits: '1' }));
  for (const [i, expiresAt] of [soon + 1, soon + DAY_MS].entries()) {
    const headers = { 'Idempotency-Key': `${billing.id} ${i}` };
    const grant = { credits: '1', beginsAt: soon, expiresAt };
    await must(201, world.call('post', `/api/v1/customer-billing/${billing.id}/grant`, grant, { headers }));
  }
  return id;
}

test('a deleted workspace is told of nothing that the clock brings', async () => {
  await must(
    201,
    world.call('post', '/api/v1/webhook', { url: 'https://hooks.example.com', events: webhookEventTypes }),
  );
  await world.sql`insert into job_watermarks (job, at) values ('webhook_moments', ${Date.now()})`;
  const { alive, deleted } = await inTime(3_000, async (soon) => {
    const [alive, deleted] = await Promise.all([makeEnding(soon), makeEnding(soon)]);
    await must(200, world.call('delete', `/api/v1/workspace/${deleted}`));
    return { alive, deleted };
  });
  const told = async (workspaceId: string) =>
    (
      await world.sql<{ type: string }[]>`
        select type from webhook_events where workspace_id = ${workspaceId} and type <> 'key.created' order by type`
    ).map(({ type }) => type);
  const telling = startTellingMoments(world.sql, makeLogger('test', 'silent'), systemClock);
  await eventually('all is told', async () => (await told(alive)).length === 5);
  await telling.stop();
  assert.equal(await told(alive), ['grant.began', 'grant.began', 'grant.expired', 'grant.expiring', 'key.expiring']);
  assert.equal(await told(deleted), []);
});

test.run();
