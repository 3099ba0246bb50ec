import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { UsageEvent } from '../../shared/events/event.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent, testLine } from '../../tests/helpers/events.ts';
import { makeFillCustomers } from './fill-customers.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';

const own = await makeConsumerWorld();

test('a line that ends or extends a hold gets the customer that Postgres has for its key, which is read once', async () => {
  const { keyId } = await own.storeKeyAndBilling();
  await own.sql`update api_keys set customer_id = 'Müller & "Söhne"' where id = ${keyId}`;
  const fill = makeFillCustomers(own.sql, systemClock);
  const customersOf = async (events: UsageEvent[], filling = fill) => {
    await filling(events);
    return events.map(({ customerId }) => customerId);
  };
  const kinds = ['capture', 'release', 'extension', 'correction'] as const;
  const made = () => [
    ...kinds.map((kind) => testLine(kind, { keyId })),
    testLine('release', { keyId, customerId: 'its own' }),
    testLine('capture', { keyId: newId('key') }),
    testEvent({ keyId }),
  ];
  const wanted = [...kinds.map(() => 'Müller & "Söhne"'), 'its own', '', ''];
  assert.equal(await customersOf(made()), wanted);
  // They never change; a reader that asked again would see this.
  await own.sql`update api_keys set customer_id = 'another' where id = ${keyId}`;
  assert.equal(await customersOf(made()), wanted);
  assert.is((await customersOf(made(), makeFillCustomers(own.sql, systemClock)))[0], 'another');
});
