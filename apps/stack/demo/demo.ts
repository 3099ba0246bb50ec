import { keytally, type Keytally } from '../../../clients/node/index.ts';
import { showAccounts } from './accounts.ts';
import { showBooks } from './books.ts';
import type { Customer, Seen, Traffic } from './traffic.ts';
import { bar, percentile, table } from './print.ts';
import { StackError } from '../process/errors.ts';
import { findSupervisor, readEnvFile, type Home } from '../process/home.ts';
import { answersOk } from '../process/program.ts';

const CALLS = 20_000;
const AT_ONCE = 32;
const GIVE_UP_AFTER_MS = 45_000;

/** Shows the product working: makes customers, sends traffic, reads the books, and checks that they add up. */
export async function demo(home: Home): Promise<boolean> {
  // On Docker Compose the demo runs in a container, where the environment says where api and verify are. Elsewhere the
  // environment may be that of a shell which read the env file of a stack that has stopped since.
  const isHere = findSupervisor(home) !== undefined;
  const known = isHere ? readEnvFile(home) : process.env;
  const { KEYTALLY_API_URL: api, KEYTALLY_VERIFY_URL: verify, KEYTALLY_TOKEN: token } = known;
  if (!api || !verify || !token || (!isHere && !(await answersOk(`${api}/healthz`)))) {
    throw new StackError(`no stack runs in ${home.folder}: start it with make up`);
  }
  let undecided = 0;
  const client = keytally({
    url: api,
    verifyUrl: verify,
    token,
    timeoutMs: GIVE_UP_AFTER_MS,
    verifyTimeoutMs: GIVE_UP_AFTER_MS,
    onRetry: () => undecided++,
  });
  const { customers, traffic } = await setUp(client);
  console.log(`a workspace, 2 scopes, ${customers.length} customers, ${number(CALLS)} verifications\n`);

  const started = performance.now();
  const seen = await send(client, traffic);
  const perSecond = (1000 * CALLS) / (performance.now() - started);
  printStatuses(seen);
  const wronged = seen.filter((one) => one.status === 'INVALID' && !one.traffic.unknown).length;
  console.log(`\n${number(perSecond)} verifications/s, client and servers on this machine`);
  console.log(`${number(undecided)} calls were not decided (503) and were repeated with their Idempotency-Key`);
  console.log(`${number(wronged)} calls with a good key were answered INVALID\n`);
  const showed = await showAccounts(client, customers[0]!.workspaceId);
  const right = await showBooks(client, customers, seen);
  const pages = known.KEYTALLY_CONSOLE_URL ?? `${api}/console`;
  console.log(`\nlook at it in the console: ${pages}/w/${customers[0]!.workspaceId}/customers`);
  return right && showed && wronged === 0;
}

async function setUp(client: Keytally): Promise<{ customers: Customer[]; traffic: Traffic[] }> {
  const { workspace } = await client.workspaces.create({ name: `demo ${new Date().toISOString()}` });
  const workspaceId = workspace.id;
  for (const representation of ['documents', 'reports']) {
    await client.scopes.create({ id: workspaceId, name: representation, representation });
  }
  const acme = await newCustomer('Acme', { usageName: 'requests', cost: '1' }, { totalCredits: '100000' });
  const globex = await newCustomer(
    'Globex',
    { usageName: 'tokens', cost: '0.002317' },
    { allowOverages: true, spendCap: '5000' },
  );
  const initech = await newCustomer('Initech', { usageName: 'pages', cost: '0.25' }, { totalCredits: '400' });
  const umbrella = await newCustomer('Umbrella', { usageName: 'requests', cost: '1' }, { totalCredits: '250.5' });
  const acmeKey = await newKey(acme);
  const mistyped = acmeKey.slice(0, -1) + (acmeKey.endsWith('0') ? '1' : '0');
  const representation = 'documents';
  return {
    customers: [acme, globex, initech, umbrella],
    traffic: [
      { weight: 45, customer: acme, key: acmeKey, representation },
      { weight: 25, customer: globex, key: await newKey(globex), representation },
      { weight: 10, customer: initech, key: await newKey(initech), representation },
      { weight: 5, customer: umbrella, key: await newKey(umbrella), representation },
      { weight: 7, customer: acme, key: await newKey(acme, { rateLimitPerSecond: 50 }), representation },
      { weight: 5, customer: acme, key: acmeKey, representation: 'reports' },
      { weight: 3, customer: acme, key: mistyped, representation, unknown: true },
    ],
  };

  async function newCustomer(
    name: string,
    counted: { usageName: string; cost: string },
    plan: { totalCredits?: string; allowOverages?: boolean; spendCap?: string },
  ): Promise<Customer> {
    const externalMeterId = `meter-${name.toLowerCase()}`;
    const { billing } = await client.billing.create({ workspaceId, externalMeterId, ...plan });
    return { name, workspaceId, externalMeterId, billingId: billing.id, ...counted };
  }

  async function newKey(customer: Customer, more: { rateLimitPerSecond?: number } = {}): Promise<string> {
    const { name, externalMeterId } = customer;
    const scopes = [{ representation: 'documents', create: true, read: true }];
    const fields = { workspaceId, name, customerId: name.toLowerCase(), externalMeterId, scopes, ...more };
    return (await client.apiKeys.create(fields)).apiKey.key;
  }
}

/** Sends the calls, several at once, and shows the progress in a line. */
async function send(client: Keytally, traffic: Traffic[]): Promise<Seen[]> {
  const total = traffic.reduce((sum, one) => sum + one.weight, 0);
  const seen: Seen[] = [];
  let sent = 0;
  let shown = 0;

  async function sendOneByOne(): Promise<void> {
    while (sent < CALLS) {
      sent++;
      const one = pick(traffic, Math.random() * total);
      const asked = performance.now();
      const { status } = await client.verify(verification(one));
      seen.push({ traffic: one, status, ms: performance.now() - asked });
      if (seen.length < CALLS && performance.now() - shown < 200) continue;
      shown = performance.now();
      showProgress(seen.length);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, sendOneByOne));
  return seen;
}

function pick(traffic: Traffic[], point: number): Traffic {
  let rest = point;
  return traffic.find((one) => (rest -= one.weight) < 0) ?? traffic[0]!;
}

function verification({ key, customer, representation }: Traffic) {
  const requestedScopes = [{ representation, read: true }];
  const billing = { usage: customer.cost, usageName: customer.usageName };
  return { key, requestedScopes, route: `/v2/${representation}`, billing };
}

function showProgress(done: number): void {
  const line = `  verifying ${bar(done / CALLS, 30)} ${number(done).padStart(6)} / ${number(CALLS)}`;
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done === CALLS ? '\n\n' : ''}`);
  else if (done === CALLS) console.log(`${line}\n`);
}

function printStatuses(seen: Seen[]): void {
  const byStatus = Object.entries(Object.groupBy(seen, (one) => one.status)).toSorted(([a], [b]) => a.localeCompare(b));
  const rows = [...byStatus, ['all', seen] as const].map(([label, some = []]) => {
    const times = some.map((one) => one.ms).toSorted((a, b) => a - b);
    const share = some.length / seen.length;
    const at = (part: number) => `${percentile(times, part).toFixed(1)} ms`;
    return [label, number(some.length), `${(100 * share).toFixed(1)} %`, bar(share, 20), at(0.5), at(0.99)];
  });
  console.log(table(['status', '>calls', '>share', '', '>p50', '>p99'], rows));
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en');
}
