-- The books. One row per event; writing a row twice is harmless, because the table's key is the event's identity.
-- Besides verifications: `adjustment` corrects used credits and belongs to the day that it is booked on, has a number of
-- its own (per record, from 1), an actor and a reason, and stands behind the event whose `seq` it carries; `settlement`
-- tells a balance that Redis took over from the books; `witness` tells the balance of a verification that a verify
-- process had answered before Redis lost it. The last two cost nothing and are no usage.
-- An adjustment that was applied again after Redis lost it replaces the event of its first time: the higher epoch stays.
-- fsync: else an acknowledged batch can be lost with the machine, while Redis keeps the debit.
create table if not exists usage_events (
  billing_id  String,
  day         Date,
  event_id    String,
  kind        Enum8('verification' = 1, 'adjustment' = 2, 'settlement' = 3, 'witness' = 4),
  key_id      String,
  usage_name  LowCardinality(String),
  cost_micros Int64,
  used_micros Int64,
  epoch       UInt32,
  seq         UInt64,
  number      UInt32,
  route       String,
  actor       String,
  reason      String,
  time        DateTime64(3, 'UTC'),
  inserted_at DateTime64(3, 'UTC') default now64(3),
  index inserted_at_minmax inserted_at type minmax granularity 1
)
engine = ReplacingMergeTree(epoch)
partition by toYYYYMM(day)
order by (billing_id, day, event_id)
settings fsync_after_insert = 1, fsync_part_directory = 1;

-- Whole-day sums of days that are over, always computed anew from usage_events, never incremented. The number of
-- distinct events is the version: a computation that saw fewer never replaces one that saw more. `events` of them are
-- verifications, the others adjustments.
create table if not exists usage_daily (
  billing_id  String,
  day         Date,
  usage_name  String,
  cost_micros Int64,
  events      UInt64,
  all_events  UInt64
)
engine = ReplacingMergeTree(all_events)
partition by toYYYYMM(day)
order by (billing_id, day, usage_name)
settings fsync_after_insert = 1, fsync_part_directory = 1;
