import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { carryDecoded } from '../../shared/events/carried-event.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent, testLine } from '../../tests/helpers/events.ts';
import { makeFillOwners } from './fill-owners.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';

const CUSTOMER = 'Müller & "Söhne"';
const own = await makeConsumerWorld();

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
  await own.sql`update api_keys set customer_id = 'another' where id = ${keyId}`;
  assert.equal(await fill(events), wanted);
  assert.equal((await fillIn()([events[0]!]))[0], [workspaceId, 'another']);
});

/** A process's own memory. Gives what each event got. */
function fillIn() {
  const fill = makeFillOwners(own.sql, makeLogger('test', 'silent'), systemClock);
  return async (events: UsageEvent[]) => {
    const filled = await fill(events.map(carryDecoded));
    for (const { row, workspaceId, customerId } of filled)
      assert.ok(row.includes(`"${workspaceId}",${JSON.stringify(customerId)}`), row);
    return filled.map(({ workspaceId, customerId }) => [workspaceId, customerId]);
  };
}

async function storeOwner() {
  const stored = await own.storeKeyAndBilling();
  await own.sql`update api_keys set customer_id = ${CUSTOMER} where id = ${stored.keyId}`;
  return stored;
}
