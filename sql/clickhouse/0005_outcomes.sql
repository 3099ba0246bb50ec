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
  customer_id  String,
  route        String,
  boot         String,
  calls        UInt64
)
engine = ReplacingMergeTree(calls)
partition by toYYYYMM(minute)
order by (team_id, workspace_id, minute, would_refuse, status, reason, limited_by, key_id, customer_id, route, boot)
ttl minute + interval 93 day
settings ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1;

-- Refusals one by one, of the last day: at most ten a second for each key. `limited_by` is JSON.
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
  index meter_bloom external_meter_id type bloom_filter granularity 1
)
engine = ReplacingMergeTree
partition by toStartOfInterval(time, interval 4 hour)
order by (workspace_id, key_id, time, refusal_id)
ttl toDateTime(time) + interval 1 day
settings ttl_only_drop_parts = 1;
