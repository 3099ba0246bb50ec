-- Up to which billing record a shard was looked through for records that are behind, while `behind_since` says that it has to be.
-- It counts in that epoch of the shard alone: reopened again, the shard may have lost more.
alter table shards add column looked_in_epoch bigint, add column looked_up_to text;
