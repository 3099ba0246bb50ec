import { setTimeout as sleep } from 'node:timers/promises';
import type { Contract, Keytally } from '../../../clients/node/index.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';
import { usedOn, type Customer } from './cast.ts';
import { table } from '../../../shared/values/table.ts';
import { number } from './print.ts';
import type { Seen } from './traffic.ts';

type UsageRow = Contract['get /api/v1/usage/{bid}']['output']['data'][number];
type Books = {
  customer: Customer;
  rows: UsageRow[];
  usageMicros: number;
  usedMicros: number;
  seenMicros: number;
  madeUpMicros: number;
};

const SETTLE_WITHIN_MS = 60_000;

/** Waits until usage has arrived in the books; shows it beside the debits, the client's own count, and what is made up. */
export async function showBooks(client: Keytally, customers: Customer[], seen: Seen[], days: number): Promise<boolean> {
  const until = performance.now() + SETTLE_WITHIN_MS;
  let books = await readAll(client, customers, seen, days);
  while (!addUp(books) && performance.now() < until) {
    await sleep(250);
    books = await readAll(client, customers, seen, days);
  }
  const headings = ['customer', 'usage', '>events', '>/api/v1/usage', '>usedCredits', '>VALID seen'];
  const all = days === 0 ? headings : [...headings, '>made up'];
  console.log(
    table(
      all,
      books.flatMap(lines).map((line) => line.slice(0, all.length)),
    ),
  );
  console.log(`\n${verdict(books)}`);
  return addUp(books);
}

function readAll(client: Keytally, customers: Customer[], seen: Seen[], days: number): Promise<Books[]> {
  return Promise.all(
    customers.map(async (customer) => {
      const { workspaceId, externalMeterId, billingId } = customer;
      const { data: rows } = await client.usage.daily({ bid: billingId });
      const { billing } = await client.billing.get({ workspaceId, externalMeterId });
      const valid = seen.filter((one) => one.status === 'VALID' && one.traffic.customer === customer);
      return {
        customer,
        rows,
        usageMicros: sum(rows.map((row) => row.totalBillingUsage)),
        usedMicros: sum([billing.usedCredits]),
        seenMicros: sum(valid.map((one) => one.traffic.customer.cost)),
        madeUpMicros: usedOn(days, customer),
      };
    }),
  );
}

function lines({ customer, rows, usedMicros, seenMicros, madeUpMicros }: Books): string[][] {
  const byName = [...Map.groupBy(rows, ({ billingUsageName = '' }) => billingUsageName)];
  return byName.map(([name, ofName], i) => [
    customer.externalMeterId,
    name,
    number(ofName.reduce((events, row) => events + row.events, 0)),
    formatCredits(sum(ofName.map((row) => row.totalBillingUsage))),
    ...(i === 0 ? [usedMicros, seenMicros, madeUpMicros].map(formatCredits) : ['', '', '']),
  ]);
}

function verdict(books: Books[]): string {
  if (!addUp(books)) return 'The books are WRONG: usage differs from used credits.';
  const right = 'The books are right: usage equals used credits for every customer.';
  const isSame = books.every((one) => one.seenMicros + one.madeUpMicros === one.usedMicros);
  if (isSame) return `${right} The client counted the same.`;
  return `${right} The client counted more: Redis was emptied while usage waited in it.`;
}

function addUp(books: Books[]): boolean {
  return books.every((one) => one.usageMicros === one.usedMicros);
}

function sum(credits: string[]): number {
  return credits.reduce((micros, text) => micros + (parseCredits(text) ?? NaN), 0);
}
