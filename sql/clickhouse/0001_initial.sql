-- The books: one row for each event. Writing a row twice is harmless, because the table's key is the event's identity.
-- The kinds besides verifications:
-- - adjustment: a correction of used credits. It belongs to the day that it is booked on, and has a number of its own
--   within the record (from 1), an actor and a reason. Its `seq` is that of the event before it.
-- - settlement: the balance after Redis took usage over from the books. It costs nothing and is not usage.
-- - witness: the balance after a verification that Redis has lost. It costs nothing and is not usage.
-- When Redis loses an adjustment and it is applied again, its event replaces the first one: the higher epoch stays.
-- fsync: without it a machine that dies can lose an acknowledged batch, while Redis keeps the debits.
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

-- Sums of whole days that are over. They are always computed from usage_events and never incremented. `all_events`, the
-- number of distinct events, is the version: sums of fewer events never replace sums of more. `events` counts the
-- verifications among them; the others are adjustments.
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
