-- Events by workspace: usage across records is one query, and an event carries its workspace and the `customerId` of its key.
-- Both are empty in rows whose record or key was gone when they were copied (copy-usage.ts).
--
-- The table is filled beside usage_events, and takes its name and place when it has all of its rows: docs/decisions/
-- books-by-workspace.md. A consumer of a version before names no workspace: it is refused, and its events wait for a new one.
create table if not exists usage_events_next (
  billing_id   String,
  day          Date,
  event_id     String,
  kind         Enum8('verification' = 1, 'adjustment' = 2, 'settlement' = 3, 'witness' = 4, 'hold' = 5, 'capture' = 6,
                     'release' = 7, 'extension' = 8, 'correction' = 9, 'turn' = 10),
  key_id       String,
  usage_name   LowCardinality(String),
  cost_micros  Int64,
  used_micros  Int64,
  epoch        UInt32,
  seq          UInt64,
  number       UInt32,
  route        String,
  actor        String,
  reason       String,
  time         DateTime64(3, 'UTC'),
  inserted_at  DateTime64(3, 'UTC') default now64(3),
  held_micros  Int64 default 0,
  hold_id      String default '',
  hold_micros  Int64 default 0,
  detail       String default '',
  crossed      String default '',
  workspace_id String default toString(throwIf(event_id != '', 'an event without a workspace: replace the consumer of the version before')),
  customer_id  String default '',
  index inserted_at_minmax inserted_at type minmax granularity 1
)
engine = ReplacingMergeTree(epoch)
partition by toYYYYMM(day)
order by (workspace_id, day, billing_id, key_id, event_id)
settings fsync_after_insert = 1, fsync_part_directory = 1;

-- Sums of whole days that are over: one row for each workspace, record, day and usage name, with its quarter hours. Always
-- computed from usage_events and never incremented; a row is replaced whole, so that no hour of before survives, and never by
-- one of fewer events (`all_events`). Verifications without a billing record have ''.
-- - cost_micros: all usage of the day; events: verifications and captures.
-- - slots: the quarter hours of the UTC day that have usage, 0 to 95, ascending; slot_micros and slot_events: what is theirs of
--   cost_micros and events.
-- - adjustment_micros: adjustments. They belong to the day, not to a quarter hour: cost_micros = sum of slot_micros +
--   adjustment_micros. adjustments: how many they are.
create table if not exists usage_days (
  workspace_id      String,
  billing_id        String,
  day               Date,
  usage_name        String,
  cost_micros       Int64,
  events            UInt64,
  slots             Array(UInt8),
  slot_micros       Array(Int64),
  slot_events       Array(UInt64),
  adjustment_micros Int64,
  adjustments       UInt64,
  all_events        UInt64
)
engine = ReplacingMergeTree(all_events)
partition by toYYYYMM(day)
order by (workspace_id, billing_id, day, usage_name)
settings index_granularity = 1024, fsync_after_insert = 1, fsync_part_directory = 1;
