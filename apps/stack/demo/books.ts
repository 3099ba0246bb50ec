import { setTimeout as sleep } from 'node:timers/promises';
import type { Keytally } from '../../../clients/node/index.ts';
import { dayOf } from '../../../shared/events/event.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { table } from '../../../shared/values/table.ts';
import { usedOn, type Customer, type Seen } from './cast.ts';

const SETTLE_WITHIN_MS = 60_000;

/** Waits until usage has arrived in the books; shows it beside the debits, and what the client saw with what is made up. */
export async function showBooks(client: Keytally, customers: Customer[], seen: Seen[], days: number): Promise<boolean> {
  const read = () => Promise.all(customers.map((customer) => readBooks(client, customer)));
  const addUp = () => books.every(({ usage, used }) => usage === used);
  const until = performance.now() + SETTLE_WITHIN_MS;
  let books = await read();
  while (!addUp() && performance.now() < until) {
    await sleep(250);
    books = await read();
  }
  const expected = customers.map((customer) => {
    const valid = seen.filter(({ status, traffic }) => status === 'VALID' && traffic.customer === customer);
    return usedOn(days, customer) + valid.length * parseCredits(customer.cost)!;
  });
  const rows = books.map(({ events, usage, used }, i) => [
    customers[i]!.externalMeterId,
    events.toLocaleString('en'),
    ...[usage, used, expected[i]!].map(formatCredits),
  ]);
  console.log(table(['customer', '>events', '>/api/v1/usage', '>usedCredits', '>expected'], rows));
  if (!addUp()) console.log('\nThe books are WRONG: usage differs from used credits.');
  else if (books.some(({ used }, i) => used !== expected[i]))
    console.log('\nThe books are right. The client saw more: Redis was emptied while usage waited in it.');
  else console.log('\nThe books are right: usage equals used credits for every customer. The client counted the same.');
  return addUp();
}

/** Closes the months of so many days before now that are over, one after the other; gives whether all are closed. */
export async function closeMonths(client: Keytally, id: string, days: number): Promise<boolean> {
  const now = Date.now();
  const months = new Set(Array.from({ length: days + 1 }, (_, i) => dayOf(now - (days - i) * DAY_MS).slice(0, 7)));
  months.delete(dayOf(now).slice(0, 7));
  for (const month of months) {
    const close = async () => (await client.workspaces.closeMonth({ id, month })).closing;
    const until = performance.now() + SETTLE_WITHIN_MS;
    let closing = await close();
    while (closing.status !== 'CLOSED' && performance.now() < until) {
      await sleep(1_000);
      closing = await close();
    }
    if (closing.status !== 'CLOSED') {
      console.log(`${month} is NOT closed: ${JSON.stringify(closing.waitsFor)}`);
      return false;
    }
    console.log(`${month} is closed: the statements of ${closing.records} customers are proved, and never change`);
  }
  return true;
}

async function readBooks(client: Keytally, { billingId: bid }: Customer) {
  const { data } = await client.usage.daily({ bid });
  const { billing } = await client.billing.getById({ bid });
  return {
    events: data.reduce((sum, { events }) => sum + events, 0),
    usage: data.reduce((sum, { totalBillingUsage }) => sum + parseCredits(totalBillingUsage)!, 0),
    used: parseCredits(billing.usedCredits)!,
  };
}
