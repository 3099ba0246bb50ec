import { setTimeout as sleep } from 'node:timers/promises';
import type { Contract, Keytally } from '../../../clients/node/index.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';
import { table } from './print.ts';
import type { Customer, Seen } from './traffic.ts';

type UsageRow = Contract['get /api/v1/usage/{bid}']['output']['data'][number] & {
  day: string;
  billingUsageName: string;
};
type Books = { customer: Customer; rows: UsageRow[]; usageMicros: number; usedMicros: number; seenMicros: number };

const SETTLE_WITHIN_MS = 60_000;

/** Waits until usage has arrived in the books; shows it beside the debits and the client's own count. */
export async function showBooks(client: Keytally, customers: Customer[], seen: Seen[]): Promise<boolean> {
  const until = performance.now() + SETTLE_WITHIN_MS;
  let books = await readAll(client, customers, seen);
  while (!addUp(books) && performance.now() < until) {
    await sleep(250);
    books = await readAll(client, customers, seen);
  }
  console.log(
    table(
      ['customer', 'day', 'usage', '>events', '>/api/v1/usage', '>usedCredits', '>VALID seen'],
      books.flatMap(lines),
    ),
  );
  console.log(`\n${verdict(books)}`);
  return addUp(books);
}

function readAll(client: Keytally, customers: Customer[], seen: Seen[]): Promise<Books[]> {
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
      };
    }),
  );
}

function lines({ customer, rows, usedMicros, seenMicros }: Books): string[][] {
  return rows.map((row, i) => [
    customer.name,
    row.day,
    row.billingUsageName,
    row.events.toLocaleString('en'),
    row.totalBillingUsage,
    ...(i === 0 ? [formatCredits(usedMicros), formatCredits(seenMicros)] : ['', '']),
  ]);
}

function verdict(books: Books[]): string {
  if (!addUp(books)) return 'The books are WRONG: usage differs from used credits.';
  const lost = books.filter((one) => one.seenMicros !== one.usedMicros);
  const right = 'The books are right: usage equals used credits for every customer.';
  if (lost.length === 0) return `${right} The client counted the same.`;
  const differences = lost.map((one) => `${one.customer.name} ${formatCredits(one.seenMicros - one.usedMicros)}`);
  return `${right}\nThe client counted more (Redis was emptied while usage waited in it): ${differences.join(', ')}`;
}

function addUp(books: Books[]): boolean {
  return books.every((one) => one.usageMicros === one.usedMicros);
}

function sum(credits: string[]): number {
  return credits.reduce((micros, text) => micros + (parseCredits(text) ?? NaN), 0);
}
