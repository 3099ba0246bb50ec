import { keytally, type Keytally } from '../../../clients/node/index.ts';
import { connectClickHouse } from '../../../shared/stores/clickhouse.ts';
import { readConfig } from '../../../shared/runtime/config.ts';
import { mapLimited } from '../../../shared/runtime/map-limited.ts';
import { groups } from '../../../shared/runtime/variables.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { table } from '../../../shared/values/table.ts';
import { StackError } from '../process/errors.ts';
import { findSupervisor, readEnvFile, type Home } from '../process/home.ts';
import { answersOk } from '../process/program.ts';
import { makeAccounts } from './accounts.ts';
import { closeMonths, showBooks } from './books.ts';
import { makeCast, shareOf, type Seen, type Traffic } from './cast.ts';
import { writePast, type PastStores } from './past.ts';

const CALLS = 20_000;
const AT_ONCE = 32;
const GIVE_UP_AFTER_MS = 45_000;
// The books keep counts of refusals for 93 days.
const MOST_DAYS = 90;

/** Shows the product working on the stack that runs; `history` is the number of days that are made up before: by default since last month began. */
export async function demo(home: Home, history: string): Promise<number> {
  const days = history === '' ? sinceLastMonth(Date.now()) : /^\d{1,2}$/.test(history) ? Number(history) : Infinity;
  if (days > MOST_DAYS) throw new StackError(`HISTORY is a number of days, at most ${MOST_DAYS}, not ${history}`);
  // On Docker Compose the demo runs in a container, where the environment says where api and verify are. Elsewhere the
  // environment may be that of a shell which read the env file of a stack that has stopped since.
  const isHere = findSupervisor(home) !== undefined;
  const known = isHere ? readEnvFile(home) : process.env;
  const { KEYTALLY_API_URL: url, KEYTALLY_VERIFY_URL: verifyUrl, KEYTALLY_TOKEN: token } = known;
  if (!url || !verifyUrl || !token || (!isHere && !(await answersOk(`${url}/healthz`)))) {
    throw new StackError(`no stack runs in ${home.folder}: start it with make up`);
  }
  const stage = { url, verifyUrl, token, pages: known.KEYTALLY_CONSOLE_URL ?? `${url}/console`, calls: CALLS };
  if (days === 0) return (await play(stage)) ? 0 : 1;
  const addresses = readConfig({ DATABASE_URL: groups.single.DATABASE_URL, ...groups.clickHouse }, known);
  const stores = {
    sql: connectPostgres(addresses.DATABASE_URL, { max: 1 }),
    books: connectClickHouse(addresses.CLICKHOUSE_URL),
  };
  try {
    return (await play({ ...stage, past: { days, ...stores } })) ? 0 : 1;
  } finally {
    await Promise.all([stores.sql.end(), stores.books.close()]);
  }
}

type Stage = {
  url: string;
  verifyUrl: string;
  token: string;
  /** The address of the console. */
  pages: string;
  calls: number;
  past?: PastStores & { days: number };
};

/** Makes a workspace with customers, sends traffic, and checks that the books add up; returns whether all went as it should. */
export async function play({ url, verifyUrl, token, pages, calls, past }: Stage): Promise<boolean> {
  const client = keytally({ url, verifyUrl, token, timeoutMs: GIVE_UP_AFTER_MS, verifyTimeoutMs: GIVE_UP_AFTER_MS });
  const days = past?.days ?? 0;
  const { workspace } = await client.workspaces.create({ name: nameOfWorkspace(days) });
  const { customers, traffic } = await makeCast(client, workspace.id, calls, days);
  console.log(`a workspace, 2 scopes, ${customers.length} customers, ${calls.toLocaleString('en')} verifications\n`);
  if (past) {
    const events = await writePast(past, customers, days);
    console.log(`${events.toLocaleString('en')} events of ${days} days, all of them MADE UP\n`);
    await showBooks(client, customers, [], days);
  }

  const started = performance.now();
  const seen = await send(client, traffic, calls);
  const perSecond = (1000 * calls) / (performance.now() - started);
  printStatuses(seen);
  const wrong = seen.filter(({ status, traffic: { answers } }) => !answers.includes(status)).length;
  console.log(`\n${perSecond.toFixed()} verifications/s, client and servers on this machine`);
  console.log(`${wrong} calls were answered otherwise than their keys say\n`);
  await makeAccounts(client, workspace.id);
  const right = await showBooks(client, customers, seen, days);
  const closed = await closeMonths(client, workspace.id, days);
  if (past) console.log(`The ${days} days before today are made up: nobody made those calls.`);
  console.log(`\nlook at it in the console: ${pages}/w/${workspace.id}/`);
  return right && closed && wrong === 0;
}

/** How many days lie between the first of last month and a moment: there is a whole month to close. */
function sinceLastMonth(nowMs: number): number {
  const now = new Date(nowMs);
  return Math.floor((nowMs - Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1)) / DAY_MS);
}

// What matters first: a narrow screen cuts the end.
function nameOfWorkspace(days: number): string {
  const at = new Date().toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
  return days === 0 ? `Demo of ${at}` : `Made up: ${days} days, demo of ${at}`;
}

function send(client: Keytally, traffic: Traffic[], calls: number): Promise<Seen[]> {
  const total = traffic.reduce((sum, one) => sum + one.weight, 0);
  const numbers = Array.from({ length: calls }, (_, i) => i + 1);
  return mapLimited(numbers, AT_ONCE, async (call) => {
    const one = pick(traffic, shareOf(call) * total);
    const { status } = await client.verify(verification(one, call));
    return { traffic: one, status };
  });
}

function printStatuses(seen: Seen[]): void {
  const byStatus = Object.entries(Object.groupBy(seen, (one) => one.status)).toSorted(([a], [b]) => a.localeCompare(b));
  const rows = byStatus.map(([status, some = []]) => [status, some.length.toLocaleString('en')]);
  console.log(table(['status', '>calls'], rows));
}

function pick(traffic: Traffic[], point: number): Traffic {
  let rest = point;
  return traffic.find((one) => (rest -= one.weight) < 0) ?? traffic[0]!;
}

function verification({ key, customer, asked: { representation = 'documents', ip } }: Traffic, call: number) {
  const { usageNames, cost } = customer;
  // Of each customer only calls between two shares are sent: a step of another size reaches all names.
  const usageName = usageNames[Math.floor(shareOf(7 * call) ** 2 * usageNames.length)]!;
  const requestedScopes = [{ representation, read: true }];
  return { key, requestedScopes, route: `/v2/${usageName}`, billing: { usage: cost, usageName }, ...(ip && { ip }) };
}
