import type { Keytally } from '../../../clients/node/index.ts';
import { mapLimited } from '../../../shared/runtime/map-limited.ts';
import { table } from '../../../shared/values/table.ts';
import { shareOf, type Traffic } from './cast.ts';

/** One call and how it was answered. */
export type Seen = { traffic: Traffic; status: string };

const AT_ONCE = 32;

/** Sends calls, several at once. */
export function send(client: Keytally, traffic: Traffic[], calls: number): Promise<Seen[]> {
  const total = traffic.reduce((sum, one) => sum + one.weight, 0);
  const numbers = Array.from({ length: calls }, (_, i) => i + 1);
  return mapLimited(numbers, AT_ONCE, async (call) => {
    const one = pick(traffic, shareOf(call) * total);
    const { status } = await client.verify(verification(one, call));
    return { traffic: one, status };
  });
}

/** Prints how often each status was answered. */
export function printStatuses(seen: Seen[]): void {
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
