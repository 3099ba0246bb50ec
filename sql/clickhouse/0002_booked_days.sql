-- What the books have of each day of a record that is over, one row for each epoch: settling, reconciling and finding
-- missing numbers read these rows and the events of open days. Like usage_daily, rows are always computed from
-- usage_events, and a row of fewer events (`all_events`) never replaces one of more.
-- - line: `verification` sums verifications, settlements and witnesses; `adjustment` sums adjustments, with epoch 0: when
--   Redis loses an adjustment and it is applied again, its event moves to a later epoch, and its row must not.
-- - events, cost_micros: verifications, or adjustments.
-- - numbers, first_number, last_number: how many numbers there are, and the lowest and highest. Verifications and
--   settlements are numbered by sequence, adjustments by their own number.
-- - last_witness: the highest number that a witness reports; 0 without one.
-- - balance: the used micro-credits after the last of the events, by epoch, sequence number and number of adjustment.
create table if not exists booked_days (
  billing_id   String,
  day          Date,
  line         Enum8('verification' = 1, 'adjustment' = 2),
  epoch        UInt32,
  events       UInt64,
  cost_micros  Int64,
  numbers      UInt64,
  first_number UInt64,
  last_number  UInt64,
  last_witness UInt64,
  balance      Tuple(epoch UInt32, seq UInt64, number UInt32, micros Int64),
  all_events   UInt64
)
engine = ReplacingMergeTree(all_events)
partition by toYYYYMM(day)
order by (billing_id, day, line, epoch)
settings fsync_after_insert = 1, fsync_part_directory = 1;

-- Days that were summed up before this table was made. Rows of open days do no harm: those days are marked, and nobody
-- reads their sums before they are computed again.
insert into booked_days
select billing_id, day, if(kind = 'adjustment', 'adjustment', 'verification') as line, if(kind = 'adjustment', 0, usage_events.epoch) as epoch,
  countIf(kind in ('verification', 'adjustment')),
  sumIf(usage_events.cost_micros, kind in ('verification', 'adjustment')),
  countIf(kind != 'witness'),
  minIf(if(kind = 'adjustment', number, seq), kind != 'witness'),
  maxIf(if(kind = 'adjustment', number, seq), kind != 'witness'),
  maxIf(seq, kind = 'witness'),
  maxIf((usage_events.epoch, seq, number, used_micros), kind != 'witness'),
  count()
from usage_events final
where billing_id != ''
group by billing_id, day, line, epoch
settings optimize_aggregation_in_order = 1, max_partitions_per_insert_block = 0, do_not_merge_across_partitions_select_final = 1;
