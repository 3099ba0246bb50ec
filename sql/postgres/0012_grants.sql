-- Grants of credits (docs/accounts-design.md). First credits, refills and grants of priority 50 without an end that have begun
-- are in total_micros and credit_ledger; a record that has only those has no account, and its settings no classes.
--
-- held_micros and expired_micros are copies, as used_micros is. granted_micros is the sum of the grants that have begun and
-- are not in total_micros, as far as they are counted.
alter table billing_records
  add column held_micros bigint not null default 0,
  add column expired_micros bigint not null default 0,
  add column granted_micros bigint not null default 0,
  add column has_classes boolean not null default false;

-- All grants of one priority and end, but those in total_micros. What has begun is a sum, so no cost grows with their number.
-- used_micros and held_micros are of one that has ended: copied from the account in Redis, as of a turn of an epoch.
create table grant_classes (
  billing_id      text not null,
  ref             text not null,
  team_id         text not null,
  priority        smallint not null check (priority between 0 and 100),
  ends_at         bigint,
  rolls_until     bigint check (rolls_until > ends_at),
  roll_max_micros bigint not null default 0,
  first_version   bigint not null,
  begun_micros    bigint not null default 0,
  used_micros     bigint,
  held_micros     bigint,
  told_epoch      bigint,
  told_turn       bigint,
  primary key (billing_id, ref),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index grant_classes_by_end on grant_classes (billing_id, (coalesce(rolls_until, ends_at, 9000000000000000)));
create index grant_classes_ended on grant_classes ((coalesce(rolls_until, ends_at))) where ends_at is not null;
create index grant_classes_untold on grant_classes ((coalesce(rolls_until, ends_at))) where ends_at is not null and told_turn is null;
create index grant_classes_held on grant_classes (billing_id) where held_micros > 0;

-- before_micros is what stands before it in its class; null until it is counted as begun. One in total_micros names its row of
-- credit_ledger, the first credits of a record the record itself. What is voided of a class of its own keeps its own numbers.
create table grants (
  id            text primary key,
  team_id       text not null,
  billing_id    text not null,
  class         text not null,
  amount_micros bigint not null check (amount_micros between 1 and 9000000000000000),
  name          text,
  priority      smallint not null check (priority between 0 and 100),
  begins_at     bigint not null,
  expires_at    bigint check (expires_at > begins_at),
  metadata      json,
  schedule_id   text,
  period        int,
  rolls_until   bigint,
  before_micros bigint,
  ledger_id     text unique,
  voided_at     bigint,
  void_reason   text,
  used_micros   bigint,
  held_micros   bigint,
  told_epoch    bigint,
  told_turn     bigint,
  token_id      text,
  request_id    text,
  created_at    timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id),
  unique (schedule_id, period)
);
create index on grants (billing_id, id);
create index grants_to_begin on grants (billing_id, begins_at) where before_micros is null and voided_at is null;
create index grants_voided on grants (billing_id, class, before_micros) where voided_at is not null and before_micros is not null;
create index grants_ended on grants (voided_at) where voided_at is not null and before_micros is not null;
create index grants_untold on grants (voided_at) where voided_at is not null and before_micros is not null and told_turn is null;
create index grants_held on grants (billing_id) where held_micros > 0;

create table grant_schedules (
  id              text primary key,
  team_id         text not null,
  billing_id      text not null,
  amount_micros   bigint not null check (amount_micros between 1 and 9000000000000000),
  every           text not null check (every in ('day', 'week', 'month', 'year')),
  timezone        text not null,
  anchor_at       bigint not null,
  ends_at         bigint,
  priority        smallint not null check (priority between 0 and 100),
  name            text,
  roll_max_micros bigint,
  next_period     int not null,
  next_at         bigint,
  token_id        text,
  request_id      text,
  deleted_at      timestamptz,
  created_at      timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id)
);
create index on grant_schedules (billing_id, id) where deleted_at is null;
create index on grant_schedules (next_at) where deleted_at is null;

-- The void of a grant that has begun is an adjustment of amount 0 that names it: one order for all that Redis must do once.
alter table adjustments
  add column grant_id text,
  add column class text,
  add column before_micros bigint,
  add column grant_micros bigint;
create index adjustments_of_grants on adjustments (billing_id, grant_id) where grant_id is not null;

grant select, insert, update, delete on grant_classes to keytally_api;
grant select, insert, update on grants, grant_schedules to keytally_api;
-- Reconciling compares accounts with their grants.
grant select on grant_classes, grants to keytally_consumer;
-- Settling must not pass over a void.
grant select (billing_id, number, grant_id) on adjustments to keytally_consumer;

do $$
declare one regclass;
begin
  foreach one in array array['grant_classes', 'grants', 'grant_schedules']::regclass[] loop
    execute format('alter table %s enable row level security', one);
    execute format('create policy team on %s to keytally_api using (is_of_team(team_id))', one);
    execute format('create policy jobs on %s to keytally_consumer using (true)', one);
  end loop;
end $$;
