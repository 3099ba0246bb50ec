import { IS_COUNTED, IS_USAGE } from './clickhouse.ts';

/** The columns of usage_days, in the order of `usageDaysOf`. */
export const usageDayColumns =
  'workspace_id, billing_id, day, usage_name, cost_micros, events, slots, slot_micros, slot_events, adjustment_micros, adjustments, all_events';

// Adjustments have no quarter hour.
const NO_SLOT = 255;

/** Rows of usage_days, computed from the events that these words behind a `from` name. They end with a condition. */
export function usageDaysOf(events: string): string {
  return `
    select workspace_id, billing_id, day, usage_name, sum(cost), sum(counted),
      arrayMap(part -> part.1, arraySort(groupArrayIf((slot, cost, counted), slot != ${NO_SLOT})) as parts),
      arrayMap(part -> part.2, parts), arrayMap(part -> part.3, parts),
      sumIf(cost, slot = ${NO_SLOT}), sumIf(number, slot = ${NO_SLOT}), sum(number)
    from (
      select workspace_id, day, billing_id, usage_name,
        toUInt8(if(kind = 'adjustment', ${NO_SLOT}, toHour(time) * 4 + intDiv(toMinute(time), 15))) as slot,
        sum(cost_micros) as cost, countIf(${IS_COUNTED}) as counted, count() as number
      from ${events} and ${IS_USAGE}
      group by workspace_id, day, billing_id, usage_name, slot
    )
    group by workspace_id, day, billing_id, usage_name`;
}
