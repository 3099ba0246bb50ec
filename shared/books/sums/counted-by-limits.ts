import { IS_CANCELLED, IS_COUNTED, readRows, type Books } from '../../stores/clickhouse.ts';

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

/** Sums what verifications that were not cancelled and captures of keys or records used since some instants. */
export function readCounted(books: Books, owner: 'key_id' | 'billing_id', asked: Asked): Promise<Counted[]> {
  return readRows<Counted>(
    books,
    `
      select ${owner}, usage_name, arrayCount(start -> toUnixTimestamp64Milli(time) >= start, {starts:Array(Int64)}) as passed,
             sum(if(${IS_COUNTED}, 1, -1)), sum(cost_micros)
      from usage_events final
      where workspace_id in {workspaceIds:Array(String)} and billing_id in {billingIds:Array(String)}
        and ${owner} in {owners:Array(String)} and day >= toDate(fromUnixTimestamp64Milli({starts:Array(Int64)}[1]), 'UTC')
        and (${IS_COUNTED} or ${IS_CANCELLED})
      group by ${owner}, usage_name, passed having passed > 0`,
    asked,
  );
}
