import type { Keytally } from '../../../clients/node/index.ts';
import { shareOf, usageNameOf, type Traffic } from './cast.ts';
import { table } from '../../../shared/values/table.ts';
import { bar, number, percentile } from './print.ts';

/** One call and how it was answered. */
export type Seen = { traffic: Traffic; status: string; ms: number };

const AT_ONCE = 32;

/** Sends calls, several at once, and shows the progress in a line. */
export async function send(client: Keytally, traffic: Traffic[], calls: number): Promise<Seen[]> {
  const total = traffic.reduce((sum, one) => sum + one.weight, 0);
  const seen: Seen[] = [];
  let sent = 0;
  let shown = 0;

  async function sendOneByOne(): Promise<void> {
    while (sent < calls) {
      sent++;
      const one = pick(traffic, shareOf(sent) * total);
      const asked = performance.now();
      const { status } = await client.verify(verification(one, sent));
      seen.push({ traffic: one, status, ms: performance.now() - asked });
      if (seen.length < calls && performance.now() - shown < 200) continue;
      shown = performance.now();
      showProgress(seen.length, calls);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, sendOneByOne));
  return seen;
}

/** Prints how often each status was answered, and how fast. */
export function printStatuses(seen: Seen[]): void {
  const byStatus = Object.entries(Object.groupBy(seen, (one) => one.status)).toSorted(([a], [b]) => a.localeCompare(b));
  const rows = [...byStatus, ['all', seen] as const].map(([label, some = []]) => {
    const times = some.map((one) => one.ms).toSorted((a, b) => a - b);
    const share = some.length / seen.length;
    const at = (part: number) => `${percentile(times, part).toFixed(1)} ms`;
    return [label, number(some.length), `${(100 * share).toFixed(1)} %`, bar(share, 20), at(0.5), at(0.99)];
  });
  console.log(table(['status', '>calls', '>share', '', '>p50', '>p99'], rows));
}

function pick(traffic: Traffic[], point: number): Traffic {
  let rest = point;
  return traffic.find((one) => (rest -= one.weight) < 0) ?? traffic[0]!;
}

function verification({ key, customer, representation = 'documents', ip }: Traffic, call: number) {
  const requestedScopes = [{ representation, read: true }];
  // Of each customer only calls between two shares are sent: a step of another size reaches all names.
  const usageName = usageNameOf(customer, 7 * call);
  const billing = { usage: customer.cost, usageName };
  return { key, requestedScopes, route: `/v2/${usageName}`, billing, ...(ip && { ip }) };
}

function showProgress(done: number, calls: number): void {
  const line = `  verifying ${bar(done / calls, 30)} ${number(done).padStart(6)} / ${number(calls)}`;
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done === calls ? '\n\n' : ''}`);
  else if (done === calls) console.log(`${line}\n`);
}
