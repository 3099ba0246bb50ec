-- The books: one row for each event. Writing a row twice is harmless, because the table's key is the event's identity.
-- The kinds besides verifications:
-- - adjustment: a correction of used credits. It belongs to the day that it is booked on, and has a number of its own
--   within the record (from 1), an actor and a reason. Its `seq` is that of the event before it.
-- - rebuild: the balance after Redis took usage over from the books. It costs nothing and is not usage.
-- - hold, capture, release, extension, correction: what happens to reserved credits. Captures and corrections are usage; of a
--   capture and a correction the cost is what it debits, all others cost nothing.
-- - moment: what it did to classes of credits. It costs nothing and is not usage.
-- All but adjustments are numbered in the record's one sequence. held_micros: the reserved micro-credits after the line; hold_id: the
-- hold it is of; hold_micros: by how much it changes what is reserved (of an extension: how much the hold reserves); classes: what it
-- does to classes of credits, of each its number, and used, held and expired micro-credits (empty: its cost is used of class 1); crossed:
-- the alerts that it crossed.
-- When Redis loses an adjustment and it is applied again, its event replaces the first one: the higher epoch stays.
-- fsync: without it a machine that dies can lose an acknowledged batch, while Redis keeps the debits.
create table if not exists usage_events (
  workspace_id String,
  billing_id   String,
  day          Date,
  event_id     String,
  kind         Enum8('verification' = 1, 'adjustment' = 2, 'rebuild' = 3, 'hold' = 4, 'capture' = 5,
                     'release' = 6, 'extension' = 7, 'correction' = 8, 'moment' = 9),
  key_id       String,
  customer_id  String,
  usage_name   LowCardinality(String),
  cost_micros  Int64,
  used_micros  Int64,
  epoch        UInt32,
  seq          UInt64,
  number       UInt32,
  held_micros  Int64,
  hold_id      String,
  hold_micros  Int64,
  detail       String,
  classes      Array(Tuple(UInt32, Int64, Int64, Int64)),
  crossed      String,
  route        String,
  actor        String,
  reason       String,
  time         DateTime64(3, 'UTC'),
  inserted_at  DateTime64(3, 'UTC') default now64(3),
  -- Of an adjustment that was applied again, after Redis had lost it, the row of the first time stays. It comes late if it comes after
  -- the other one, and of what is late the balances are held against the books again.
  precedence   UInt32 materialized 4294967295 - epoch,
  index inserted_at_minmax inserted_at type minmax granularity 1
)
engine = ReplacingMergeTree(precedence)
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

-- What the books have of each day of a record that is over, one row for each epoch: settling, reconciling and finding
-- missing numbers read these rows and the events of open days. Like usage_days, rows are always computed from
-- usage_events, and a row of fewer events (`all_events`) never replaces one of more.
-- - line: `verification` sums all but adjustments; `adjustment` sums adjustments, with epoch 0: when
--   Redis loses an adjustment and it is applied again, its event may be of another epoch, and its row must not.
-- - cost_micros: what is usage.
-- - numbers, first_number, last_number: how many numbers there are, and the lowest and highest. Adjustments are numbered by their
--   own number, all others by sequence.
-- - balance: the used micro-credits after the last of the events, by epoch, sequence number and number of adjustment.
-- - held_micros: after the last of the events, the one of `balance`.
-- - held_change: what the events added to the reserved credits, less what they took.
-- - classes: what the events did to classes of credits: their numbers, and used, held and expired micro-credits of each.
-- - last_ms: the time of the last of the events.
-- - has_holds: whether an event is of a hold. A search for holds reads no other day.
create table if not exists booked_days (
  billing_id   String,
  day          Date,
  line         Enum8('verification' = 1, 'adjustment' = 2),
  epoch        UInt32,
  cost_micros  Int64,
  numbers      UInt64,
  first_number UInt64,
  last_number  UInt64,
  balance      Tuple(epoch UInt32, seq UInt64, number UInt32, micros Int64),
  held_micros  Int64,
  held_change  Int64,
  classes      Tuple(Array(UInt32), Array(Int64), Array(Int64), Array(Int64)),
  last_ms      Int64,
  has_holds    Bool,
  all_events   UInt64
)
engine = ReplacingMergeTree(all_events)
partition by toYYYYMM(day)
order by (billing_id, day, line, epoch)
settings fsync_after_insert = 1, fsync_part_directory = 1;

-- Why calls were refused. Nothing is billed by these tables, and no usage is in them.

-- What a process has refused so far in a minute: everything but `calls` is the identity of a count, and of one that is told
-- again the largest stays. `workspace_id` is empty for secrets that are no key of the team's. With `would_refuse`, calls
-- that `limited_by` would have refused if it did more than watch: those are no refusals.
create table if not exists refusals (
  team_id      String,
  workspace_id String,
  minute       DateTime('UTC'),
  would_refuse Bool,
  status       LowCardinality(String),
  reason       LowCardinality(String),
  limited_by   LowCardinality(String),
  key_id       String,
  boot         String,
  calls        UInt64
)
engine = ReplacingMergeTree(calls)
partition by toYYYYMM(minute)
order by (team_id, workspace_id, minute, would_refuse, status, reason, limited_by, key_id, boot)
ttl minute + interval 93 day
settings ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1;

-- Refusals one by one, of the last day: at most ten a second for each key. `limited_by` is JSON. The address of the end client, where
-- whoever asked named it, is in no other table, and ends with its row.
create table if not exists recent_refusals (
  workspace_id      String,
  key_id            String,
  time              DateTime64(3, 'UTC'),
  refusal_id        String,
  external_meter_id String,
  status            LowCardinality(String),
  reason            LowCardinality(String),
  limited_by        String,
  route             String,
  client_address    String,
  index meter_bloom external_meter_id type bloom_filter granularity 1
)
engine = ReplacingMergeTree
partition by toStartOfInterval(time, interval 4 hour)
order by (workspace_id, key_id, time, refusal_id)
ttl toDateTime(time) + interval 1 day
settings ttl_only_drop_parts = 1;
