import { dayOf } from '../../shared/events/event.ts';

const DAY_MS = 86_400_000;
/** Costs repeat after so many events: 1, 2, 3 … micro-credits. */
const COSTS = 1_000;
const SUM_OF_COSTS = (COSTS * (COSTS + 1)) / 2;
/** Today's events end before now, so that those which come later have later times. */
const ENDS_BEFORE_NOW_MS = 60_000;

/** One event of the history, by its place from 0. */
export type Place = { epoch: number; sequence: number; day: string; timeMs: number; usedMicros: number };

/** A part of the history that lies within one day. */
export type Part = {
  first: number;
  count: number;
  dayFirst: number;
  dayCount: number;
  startMs: number;
  spanMs: number;
};

/** The history of one billing record: its events are spread evenly over its days, the last of which is today, and its epochs. */
export type HistoryPlan = {
  events: number;
  epochs: number;
  /** The first is the oldest, the last is today. */
  days: string[];
  usedMicros: number;
  place(index: number): Place;
  /** Parts of at most `size` events, in order. */
  parts(size: number): Generator<Part>;
  /** The number of the last event of an epoch. */
  lastOf(epoch: number): number;
};

/** Plans a history that ends today. */
export function planHistory(events: number, dayCount: number, epochs: number, nowMs: number): HistoryPlan {
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS;
  const startOf = (day: number) => today - (dayCount - 1 - day) * DAY_MS;
  const firstOfDay = (day: number) => Math.ceil((day * events) / dayCount);
  const firstOfEpoch = (epoch: number) => Math.ceil(((epoch - 1) * events) / epochs);
  const wholeDay = (day: number): Omit<Part, 'first' | 'count'> => ({
    dayFirst: firstOfDay(day),
    dayCount: firstOfDay(day + 1) - firstOfDay(day),
    startMs: startOf(day),
    spanMs: day < dayCount - 1 ? DAY_MS : Math.max(1, nowMs - today - ENDS_BEFORE_NOW_MS),
  });

  return {
    events,
    epochs,
    days: Array.from({ length: dayCount }, (_, day) => dayOf(startOf(day))),
    usedMicros: usedAfter(events),
    place(index) {
      const epoch = Math.floor((index * epochs) / events) + 1;
      const { dayFirst, dayCount: count, startMs, spanMs } = wholeDay(Math.floor((index * dayCount) / events));
      const timeMs = startMs + Math.floor(((index - dayFirst) * spanMs) / count);
      const sequence = index - firstOfEpoch(epoch) + 1;
      return { epoch, sequence, day: dayOf(timeMs), timeMs, usedMicros: usedAfter(index + 1) };
    },
    *parts(size) {
      for (let day = 0; day < dayCount; day++) {
        const whole = wholeDay(day);
        for (let done = 0; done < whole.dayCount; done += size)
          yield { ...whole, first: whole.dayFirst + done, count: Math.min(size, whole.dayCount - done) };
      }
    },
    lastOf: (epoch) => firstOfEpoch(epoch + 1) - firstOfEpoch(epoch),
  };
}

/** Used micro-credits after so many events. */
function usedAfter(events: number): number {
  const rest = events % COSTS;
  return Math.floor(events / COSTS) * SUM_OF_COSTS + (rest * (rest + 1)) / 2;
}

/** The SQL that inserts a part of the history. Its parameters are those of `partParameters`. */
export const insertPart = `
  insert into usage_events (workspace_id, billing_id, day, event_id, kind, key_id, usage_name, cost_micros, used_micros, epoch, seq,
                            number, route, actor, reason, time, inserted_at)
  with number as n, n + 1 as done, modulo(done, ${COSTS}) as rest,
       intDiv(n * {epochs:UInt64}, {events:UInt64}) as past,
       intDiv(past * {events:UInt64} + {epochs:UInt64} - 1, {epochs:UInt64}) as epoch_first,
       {startMs:UInt64} + intDiv((n - {dayFirst:UInt64}) * {spanMs:UInt64}, {dayCount:UInt64}) as ms
  select {workspaceId:String}, {billingId:String}, toDate({day:String}),
         lower(concat('evt_0', substring(hex(toUInt64(ms)), 6), substring(hex(cityHash64(n)), 3))), 'verification',
         {keyId:String}, if(modulo(n, 2) = 0, 'tokens', 'requests'), 1 + modulo(n, ${COSTS}),
         intDiv(done, ${COSTS}) * ${SUM_OF_COSTS} + intDiv(rest * (rest + 1), 2), past + 1, n - epoch_first + 1,
         0, '', '', '', fromUnixTimestamp64Milli(toInt64(ms)), fromUnixTimestamp64Milli(toInt64(ms))
  from numbers({first:UInt64}, {count:UInt64})`;

type Ids = { workspaceId: string; billingId: string; keyId: string };

/** The parameters of `insertPart`. */
export function partParameters({ events, epochs }: HistoryPlan, part: Part, ids: Ids) {
  return { events, epochs, ...part, day: dayOf(part.startMs), ...ids };
}
