-- The books. One row per event; writing a row twice is harmless, because the table's key is the event's identity.
-- fsync: else an acknowledged batch can be lost with the machine, while Redis keeps the debit.
create table if not exists usage_events (
  billing_id  String,
  day         Date,
  event_id    String,
  key_id      String,
  usage_name  LowCardinality(String),
  cost_micros Int64,
  used_micros Int64,
  epoch       UInt32,
  seq         UInt64,
  route       String,
  time        DateTime64(3, 'UTC'),
  inserted_at DateTime64(3, 'UTC') default now64(3),
  index inserted_at_minmax inserted_at type minmax granularity 1
)
engine = ReplacingMergeTree
partition by toYYYYMM(day)
order by (billing_id, day, event_id)
settings fsync_after_insert = 1, fsync_part_directory = 1;

-- Whole-day sums of days that are over, always computed anew from usage_events, never incremented. The number of
-- distinct events is the version: a computation that saw fewer never replaces one that saw more.
create table if not exists usage_daily (
  billing_id  String,
  day         Date,
  usage_name  String,
  cost_micros Int64,
  events      UInt64
)
engine = ReplacingMergeTree(events)
partition by toYYYYMM(day)
order by (billing_id, day, usage_name)
settings fsync_after_insert = 1, fsync_part_directory = 1;
