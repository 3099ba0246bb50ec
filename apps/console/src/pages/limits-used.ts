import { call } from '../data/call.ts';
import { readItems, useMay, useRead, useWorkspace } from '../data/hooks.ts';
import { firstDayOf, lastDays } from '../data/time.ts';
import { limitKind, type Limit } from '../parts/limits.tsx';
import { sumOf } from './usage.tsx';

/** Limits of a key or a customer, with how much of each that follows the calendar is used by now, as the books have it. */
export function useLimitKind(limits: readonly Limit[] = [], of: { apiKeyId: string } | { externalMeterId: string }) {
  const { id: workspaceId } = useWorkspace();
  const may = useMay()('usage:read');
  const usedOf = async ({ unit, per, timezone = 'UTC', usageName }: Limit) => {
    const { to } = lastDays(timezone, 1);
    const from = firstDayOf(per, to);
    // Calls are counted for 93 days, and not by usage.
    if (!may || !from || (unit === 'requests' && (usageName || per === 'year'))) return undefined;
    const asked = { workspaceId, ...of, from, to, timezone };
    const named = { ...asked, usageName, interval: 'month', groupBy: 'usageName', limit: 1_000 } as const;
    if (unit === 'credits') return sumOf(await readItems('get /api/v1/usage', named));
    const { data } = await call('get /api/v1/verifications', { ...asked, status: 'VALID', interval: 'day' });
    return String(data.reduce((sum, { count }) => sum + count, 0));
  };
  // What can't be counted leaves the others their numbers.
  const usedOrNothing = async (one: Limit) => [one.name, await usedOf(one).catch(() => undefined)] as const;
  const read = async () => Promise.all(limits.map(usedOrNothing));
  const used = new Map(useRead(read, JSON.stringify([limits, of])).value);
  const [name, most, ...others] = limitKind.columns;
  const column = { title: 'Used', amount: ({ name }: Limit) => used.get(name) };
  return { ...limitKind, columns: [name!, column, most!, ...others] };
}
