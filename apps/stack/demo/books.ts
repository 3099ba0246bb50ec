import { setTimeout as sleep } from 'node:timers/promises';
import type { Keytally } from '../../../clients/node/index.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';
import { table } from '../../../shared/values/table.ts';
import { usedOn, type Customer } from './cast.ts';
import { number } from './print.ts';
import type { Seen } from './traffic.ts';

const SETTLE_WITHIN_MS = 60_000;

/** Waits until usage has arrived in the books; shows it beside the debits, the client's own count, and what is made up. */
export async function showBooks(client: Keytally, customers: Customer[], seen: Seen[], days: number): Promise<boolean> {
  const read = () => Promise.all(customers.map((customer) => readBooks(client, customer, seen, days)));
  const until = performance.now() + SETTLE_WITHIN_MS;
  let books = await read();
  const addUp = () => books.every((one) => one.usage === one.used);
  while (!addUp() && performance.now() < until) {
    await sleep(250);
    books = await read();
  }
  const headings = ['customer', '>events', '>/api/v1/usage', '>usedCredits', '>VALID seen', '>made up'];
  const rows = books.map(({ customer, events, usage, used, counted, madeUp }) => [
    customer.externalMeterId,
    number(events),
    ...[usage, used, counted, madeUp].map(formatCredits),
  ]);
  const columns = days === 0 ? headings.length - 1 : headings.length;
  console.log(
    table(
      headings.slice(0, columns),
      rows.map((row) => row.slice(0, columns)),
    ),
  );
  const isSame = books.every((one) => one.counted + one.madeUp === one.used);
  if (!addUp()) console.log('\nThe books are WRONG: usage differs from used credits.');
  else
    console.log(
      '\nThe books are right: usage equals used credits for every customer. ' +
        (isSame
          ? 'The client counted the same.'
          : 'The client counted more: Redis was emptied while usage waited in it.'),
    );
  return addUp();
}

/** What a customer has used, in micro-credits, by its usage, its balance and the client's own count. */
async function readBooks(client: Keytally, customer: Customer, seen: Seen[], days: number) {
  const { data } = await client.usage.daily({ bid: customer.billingId });
  const { billing } = await client.billing.getById({ bid: customer.billingId });
  const valid = seen.filter(({ status, traffic }) => status === 'VALID' && traffic.customer === customer);
  return {
    customer,
    events: data.reduce((sum, { events }) => sum + events, 0),
    usage: data.reduce((sum, { totalBillingUsage }) => sum + parseCredits(totalBillingUsage)!, 0),
    used: parseCredits(billing.usedCredits)!,
    counted: valid.length * parseCredits(customer.cost)!,
    madeUp: usedOn(days, customer),
  };
}
