-- Billing records whose balance in Redis may lack what the books have: work to do that outlives the process that noticed
-- it. `mark` changes with every note; whoever settles a record removes the note only if its mark is still the same. A
-- record that fails alone has `attempts` above 0 and waits until `next_attempt_at`; one that is being settled does too.
create sequence unsettled_records_seq;
create table unsettled_records (
  billing_id      text primary key,
  shard           smallint not null,
  mark            bigint not null default nextval('unsettled_records_seq'),
  attempts        int not null default 0,
  next_attempt_at timestamptz not null default now(),
  noted_at        timestamptz not null default now()
);
create index on unsettled_records (next_attempt_at);

-- A shard that kept its data and was reopened, while the books are not looked through yet for records that are behind:
-- those with events that arrived there since a moment (Unix ms), of this epoch or later. Null: nothing to look for.
alter table shards add column behind_since bigint, add column behind_from_epoch bigint;

grant select, insert, update, delete on unsettled_records to keytally_api, keytally_consumer;
grant usage on sequence unsettled_records_seq to keytally_api, keytally_consumer;

-- No request of a team needs it. A look at each row's billing record would cost more than the work on it.
alter table unsettled_records enable row level security;
create policy every_team on unsettled_records to keytally_api using (current_setting('keytally.team', true) = '*');
create policy jobs on unsettled_records to keytally_consumer using (true);
