import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { carryDecoded, type CarriedEvent } from '../../shared/events/carried-event.ts';
import { encodeEvent, EVENT_FIELD, type UsageEvent } from '../../shared/events/event.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent, testLine } from '../../tests/helpers/events.ts';
import { eventually, wireTo } from '../../tests/helpers/world.ts';
import { makeFillOwners } from './fill-owners.ts';
import { makeConsumerWorld, type ConsumerWorld } from './helpers/consumer-world.ts';

const CUSTOMER = 'Müller & "Söhne"';
let own: ConsumerWorld;
const test = suite('owners of events');
test.before(async () => {
  own = await makeConsumerWorld();
});
test.after(() => own?.stop());

test('an event without them gets the workspace and the customer that Postgres has, each key being read once', async () => {
  const { keyId, billingId, workspaceId } = await storeOwner();
  const elsewhere = newId('ws');
  const fill = fillIn();
  const metered = { keyId, billingId };
  const lines = ['capture', 'release', 'extension', 'correction'] as const;
  const events = [
    testEvent(metered),
    testEvent({ keyId }),
    testEvent({ kind: 'adjustment', keyId: '', billingId, number: 1 }),
    ...lines.map((kind) => testLine(kind, { ...metered, workspaceId })),
    testEvent({ keyId: newId('key'), billingId: newId('bill') }),
    testEvent({ ...metered, workspaceId: elsewhere, customerId: 'its own' }),
    testEvent({ ...metered, workspaceId: elsewhere }),
  ];
  const wanted = [
    [workspaceId, CUSTOMER],
    [workspaceId, CUSTOMER],
    [workspaceId, ''],
    ...lines.map(() => [workspaceId, CUSTOMER]),
    ['', ''],
    [elsewhere, 'its own'],
    [elsewhere, ''],
  ];
  assert.equal(await fill(events), wanted);
  // They never change; a reader that asked again would see this.
  await own.world.sql`update api_keys set customer_id = 'another' where id = ${keyId}`;
  assert.equal(await fill(events), wanted);
  assert.equal((await fillIn()([events[0]!]))[0], [workspaceId, 'another']);
});

test('while Postgres is unavailable, an event of a version before waits, and is then booked in its workspace', async () => {
  const { keyId, billingId, workspaceId } = await storeOwner();
  const { world, node } = own;
  const wire = await wireTo(world.env.DATABASE_URL!);
  const sql = connectPostgres(wire.url, { max: 1 });
  try {
    await sql`select 1`;
    await wire.cut();
    const before = testEvent({ keyId, billingId });
    await node.client.xadd(keyspace.outbox(0), '*', EVENT_FIELD, encodeEvent(before));
    const failures: string[] = [];
    const fillOwners = makeFillOwners(sql, makeLogger('test', 'silent'), systemClock);
    const watched = (events: CarriedEvent[]) =>
      fillOwners(events).catch((error: Error) => {
        failures.push(error.message);
        throw error;
      });
    const consuming = own.consume(own.reader('waiting'), watched);
    await eventually('it was tried again', async () => failures.length >= 2);
    assert.is((await own.booked(billingId)).physical, 0);
    await wire.mend();
    await eventually('it is acknowledged', async () => (await own.waiting()).entries === 0);
    await consuming.stop();
    const rows = await own.rows(
      'select workspace_id as workspace, customer_id as customer from usage_events where event_id = {id:String}',
      { id: before.id },
    );
    assert.equal(rows, [{ workspace: workspaceId, customer: CUSTOMER }]);
  } finally {
    await sql.end({ timeout: 0 });
    await wire.cut();
  }
});

test.run();

/** A process's own memory. Gives what each event got. */
function fillIn() {
  const fill = makeFillOwners(own.world.sql, makeLogger('test', 'silent'), systemClock);
  return async (events: UsageEvent[]) => {
    const filled = await fill(events.map(carryDecoded));
    for (const { row, workspaceId, customerId } of filled)
      assert.ok(row.includes(`"${workspaceId}",${JSON.stringify(customerId)}`), row);
    return filled.map(({ workspaceId, customerId }) => [workspaceId, customerId]);
  };
}

async function storeOwner() {
  const stored = await own.storeKeyAndBilling();
  await own.world.sql`update api_keys set customer_id = ${CUSTOMER} where id = ${stored.keyId}`;
  return stored;
}
