import { IS_CANCELLED, IS_COUNTED, readRows, type Books } from '../../stores/clickhouse.ts';

// What limits over windows count, as the books have it.

/** What was counted of an owner since an instant: how many calls, and what they cost. */
export type WindowedSums = (owner: string, sinceMs: number, usageName: string | undefined) => Counted;
export type Counted = { events: number; micros: number };

type Wanted = {
  workspaceIds: string[];
  /** The records whose events count; `''` for those of keys without one. */
  billingIds: string[];
  /** The keys whose events count, each by itself; absent: those of each record. */
  keyIds?: string[];
  sinceMs: number[];
};

/** Sums what verifications that were not cancelled and captures of some keys or records used since some instants, in one query. */
export async function readWindowedSums(
  books: Books,
  { workspaceIds, billingIds, keyIds, sinceMs }: Wanted,
): Promise<WindowedSums> {
  const starts = [...new Set(sinceMs)].toSorted((a, b) => a - b);
  const owner = keyIds ? 'key_id' : 'billing_id';
  // Of a row counts how many of the instants lie at or before it.
  const rows = await readRows<[id: string, usageName: string, passed: string, events: string, micros: string]>(
    books,
    `
      select ${owner}, usage_name, arrayCount(start -> toUnixTimestamp64Milli(time) >= start, {starts:Array(Int64)}) as passed,
             sum(if(${IS_COUNTED}, 1, -1)), sum(cost_micros)
      from usage_events final
      where workspace_id in {workspaceIds:Array(String)} and billing_id in {billingIds:Array(String)} ${keyIds ? 'and key_id in {keyIds:Array(String)}' : ''}
        and day >= toDate(fromUnixTimestamp64Milli({first:Int64}), 'UTC') and (${IS_COUNTED} or ${IS_CANCELLED})
      group by ${owner}, usage_name, passed having passed > 0`,
    { workspaceIds, billingIds, keyIds: keyIds ?? [], starts, first: starts[0] ?? 0 },
  );
  const byOwner = Map.groupBy(rows, ([id]) => id);
  return (id, since, usageName) => {
    const [sums, from] = [{ events: 0, micros: 0 }, starts.indexOf(since) + 1];
    for (const [, name, passed, events, micros] of byOwner.get(id) ?? []) {
      if (Number(passed) < from || (usageName !== undefined && name !== usageName)) continue;
      sums.events += Number(events);
      sums.micros += Number(micros);
    }
    return sums;
  };
}
