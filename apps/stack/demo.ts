import { setTimeout as sleep } from 'node:timers/promises';
import { makeClient, type Client } from './demo-client.ts';
import { bar, percentile, table } from './demo-print.ts';
import { StackError } from './errors.ts';
import { findSupervisor, readEnvFile, type Home } from './home.ts';

const CALLS = 20_000;
const AT_ONCE = 32;
const SETTLE_WITHIN_MS = 60_000;

type Customer = {
  name: string;
  usageName: string;
  cost: string;
  billingId: string;
  externalMeterId: string;
  key: string;
};
type Traffic = { weight: number; key: string; usage: string; usageName: string; representation: string };
type Seen = { status: string; ms: number };

/** Shows the product working: makes customers, sends traffic, and reads the books back, which must add up. */
export async function demo(home: Home): Promise<boolean> {
  const env = readEnvFile(home);
  const { KEYTALLY_API_URL: api, KEYTALLY_VERIFY_URL: verify, KEYTALLY_TOKEN: token } = env;
  if (!findSupervisor(home) || !api || !verify || !token) {
    throw new StackError(`keytally is not running in ${home.folder}: make up starts it`);
  }
  const client = makeClient({ api, verify, token });
  const { workspaceId, customers, traffic } = await setUp(client);
  console.log(
    `workspace ${workspaceId}: ${customers.length} customers, 2 scopes, ${CALLS.toLocaleString('en')} verifications\n`,
  );

  const started = performance.now();
  const seen = await send(client, traffic);
  const seconds = (performance.now() - started) / 1000;
  printStatuses(seen);
  console.log(
    `\n${Math.round(CALLS / seconds).toLocaleString('en')} verifications/s, client and servers on this machine;`,
  );
  console.log(`${client.undecided()} calls got no decision at first and were repeated with their Idempotency-Key\n`);
  return showBooks(client, workspaceId, customers);
}

async function setUp(client: Client) {
  const { workspace } = await client.manage('POST', '/api/v1/workspace', { name: `demo ${new Date().toISOString()}` });
  const workspaceId = workspace.id as string;
  for (const representation of ['documents', 'reports']) {
    await client.manage('POST', `/api/v1/workspace/${workspaceId}/scope`, { name: representation, representation });
  }

  const plans = [
    { name: 'Acme', usageName: 'requests', cost: '1', billing: { totalCredits: '100000' } },
    { name: 'Globex', usageName: 'tokens', cost: '0.002317', billing: { allowOverages: true, spendCap: '5000' } },
    { name: 'Initech', usageName: 'pages', cost: '0.25', billing: { totalCredits: '400' } },
    { name: 'Umbrella', usageName: 'requests', cost: '1', billing: { totalCredits: '250.5' } },
  ];
  const customers: Customer[] = [];
  for (const { name, usageName, cost, billing } of plans) {
    const externalMeterId = `meter-${name.toLowerCase()}`;
    const record = await client.manage('POST', '/api/v1/customer-billing', {
      workspaceId,
      externalMeterId,
      ...billing,
    });
    const customerId = name.toLowerCase();
    const key = await newKey({ name, customerId, externalMeterId });
    customers.push({ name, usageName, cost, billingId: record.billing.id, externalMeterId, key });
  }
  const hasty = await newKey({
    name: 'hasty',
    customerId: 'acme',
    externalMeterId: 'meter-acme',
    rateLimitPerSecond: 50,
  });

  const weights = [45, 25, 10, 5];
  const traffic: Traffic[] = customers.map(({ key, cost, usageName }, i) => ({
    weight: weights[i]!,
    ...{ key, usage: cost, usageName, representation: 'documents' },
  }));
  const [acme] = traffic as [Traffic];
  traffic.push(
    { ...acme, weight: 7, key: hasty },
    { ...acme, weight: 5, representation: 'reports' },
    { ...acme, weight: 3, key: `${acme.key.slice(0, -1)}${acme.key.endsWith('0') ? '1' : '0'}` },
  );
  return { workspaceId, customers, traffic };

  async function newKey(fields: object): Promise<string> {
    const scopes = [{ representation: 'documents', create: true, read: true }];
    const { apiKey } = await client.manage('POST', '/api/v1/api-key', { workspaceId, scopes, ...fields });
    return apiKey.key as string;
  }
}

/** Sends the calls, some at once, with a line that shows how far they are. */
async function send(client: Client, traffic: Traffic[]): Promise<Seen[]> {
  const total = traffic.reduce((sum, one) => sum + one.weight, 0);
  const seen: Seen[] = [];
  let sent = 0;
  let shown = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (sent < CALLS) {
        sent++;
        seen.push(await client.verify(verification(pick(traffic, Math.random() * total))));
        if (seen.length === CALLS || performance.now() - shown > 200) showProgress(seen.length);
      }
    }),
  );
  return seen;

  function showProgress(done: number): void {
    shown = performance.now();
    const line = `  verifying ${bar(done / CALLS, 30)} ${done.toLocaleString('en').padStart(6)} / ${CALLS.toLocaleString('en')}`;
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done === CALLS ? '\n\n' : ''}`);
    else if (done === CALLS) console.log(`${line}\n`);
  }
}

function pick(traffic: Traffic[], point: number): Traffic {
  let rest = point;
  return traffic.find((one) => (rest -= one.weight) < 0) ?? traffic[0]!;
}

function verification({ key, usage, usageName, representation }: Traffic) {
  const requestedScopes = [{ representation, read: true }];
  return { key, requestedScopes, route: `/v2/${representation}`, billing: { usage, usageName } };
}

function printStatuses(seen: Seen[]): void {
  const statuses = [...new Set(seen.map((one) => one.status))].toSorted();
  const row = (label: string, some: Seen[]) => {
    const times = some.map((one) => one.ms).toSorted((a, b) => a - b);
    const share = `${((100 * some.length) / seen.length).toFixed(1)} %`;
    const at = (part: number) => `${percentile(times, part).toFixed(1)} ms`;
    return [label, some.length.toLocaleString('en'), share, bar(some.length / seen.length, 20), at(0.5), at(0.99)];
  };
  const rows = statuses.map((status) =>
    row(
      status,
      seen.filter((one) => one.status === status),
    ),
  );
  console.log(table(['status', '>calls', '>share', '', '>p50', '>p99'], [...rows, row('all', seen)]));
}

/** Waits until usage has come through, and compares it with what was debited. */
async function showBooks(client: Client, workspaceId: string, customers: Customer[]): Promise<boolean> {
  const until = performance.now() + SETTLE_WITHIN_MS;
  for (;;) {
    const books = await Promise.all(customers.map(async (customer) => readBooks(client, workspaceId, customer)));
    const right = books.every((one) => one.usage === one.used);
    if (!right && performance.now() < until) {
      await sleep(250);
      continue;
    }
    const rows = books.flatMap(({ customer, rows, used }) =>
      rows.map((row, i) => [
        customer,
        row.day,
        row.billingUsageName,
        row.events.toLocaleString('en'),
        row.totalBillingUsage,
        i === 0 ? used : '',
      ]),
    );
    console.log(table(['customer', 'day', 'usage', '>events', '>/api/v1/usage', '>usedCredits'], rows));
    console.log(
      right ? '\nThe books are right: usage equals used credits for every customer.' : '\nThe books do NOT add up.',
    );
    return right;
  }
}

type UsageRow = { day: string; billingUsageName: string; events: number; totalBillingUsage: string };

async function readBooks(client: Client, workspaceId: string, { name, billingId, externalMeterId }: Customer) {
  const query = new URLSearchParams({ workspaceId, externalMeterId });
  const { data } = await client.manage('GET', `/api/v1/usage/${billingId}`);
  const { billing } = await client.manage('GET', `/api/v1/customer-billing?${query.toString()}`);
  const rows = data as UsageRow[];
  const micros = rows.reduce((sum, row) => sum + toMicros(row.totalBillingUsage), 0n);
  return {
    customer: name,
    rows,
    used: billing.usedCredits as string,
    usage: micros === toMicros(billing.usedCredits) ? (billing.usedCredits as string) : `${micros} micro-credits`,
  };
}

function toMicros(credits: string): bigint {
  const [whole = '0', fraction = ''] = credits.split('.');
  return BigInt(whole + fraction.padEnd(6, '0'));
}
