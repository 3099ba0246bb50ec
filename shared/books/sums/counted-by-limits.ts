import { IS_CANCELLED, readRows, type Books } from '../../stores/clickhouse.ts';

type Asked = {
  workspaceIds: string[];
  /** The records whose events count; `''` for those of keys without one. */
  billingIds: string[];
  /** Keys or records. */
  owners: string[];
  /** From when on, in Unix ms, in their order. */
  starts: number[];
};

/** Of an owner, a usage name and how many of the starts lie at or before its usage: how many calls, and what they cost. */
type Counted = [owner: string, usageName: string, passed: string, events: string, micros: string];

/**
 * Sums what keys or records used since some instants, as limits count it: a hold is a request, and what became of it counts where it was
 * opened; what was cancelled is neither.
 */
export function readCounted(books: Books, owner: 'key_id' | 'billing_id', asked: Asked): Promise<Counted[]> {
  const passed = 'arrayCount(start -> toUnixTimestamp64Milli(time) >= start, {starts:Array(Int64)})';
  return readRows<Counted>(
    books,
    `
      select ${owner}, usage_name, if(hold = '', own, opened) as passed, sum(events), sum(micros)
      from (
        select ${owner}, usage_name, if(${IS_CANCELLED}, '', hold_id) as hold, if(hold = '', ${passed}, 0) as own,
               maxIf(${passed}, kind = 'hold') as opened, sum(cost_micros) as micros,
               sum(multiIf(kind in ('verification', 'hold'), 1, ${IS_CANCELLED}, -1, 0)) as events
        from usage_events final
        where workspace_id in {workspaceIds:Array(String)} and billing_id in {billingIds:Array(String)}
          and ${owner} in {owners:Array(String)} and day >= toDate(fromUnixTimestamp64Milli({starts:Array(Int64)}[1]), 'UTC')
          and kind in ('verification', 'hold', 'capture', 'correction')
        group by ${owner}, usage_name, hold, own)
      group by ${owner}, usage_name, passed having passed > 0`,
    asked,
  );
}
