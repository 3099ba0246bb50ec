-- Credits: billing records, what is given to them, and what is watched.

-- used_micros, held_micros, expired_micros and total_of_account_micros are copies to read while Redis is unavailable; Redis and the
-- books have the truth. What is declared and has begun since the copy is in total_micros and granted_micros, the sum of the grants that
-- have begun and are not in total_micros; totals never fall. last_adjustment is the number of the newest row in adjustments,
-- last_class the highest number of a class: 1 is what is in total_micros. A record that has only grants of priority 50 without an end has no account, and its settings no classes.
create table billing_records (
  id                      text primary key,
  team_id                 text not null,
  workspace_id            text not null,
  external_meter_id       text not null,
  shard                   smallint not null,
  total_micros            bigint not null check (total_micros between 0 and 9000000000000000),
  used_micros             bigint not null default 0,
  held_micros             bigint not null default 0,
  expired_micros          bigint not null default 0,
  granted_micros          bigint not null default 0,
  total_of_account_micros bigint not null default 0,
  has_classes             boolean not null default false,
  last_adjustment         int not null default 0,
  last_class              int not null default 1,
  allow_overages          boolean not null,
  spend_cap_micros        bigint check (spend_cap_micros between 0 and 9000000000000000),
  limits                  json,
  alerts                  json,
  external_ids            json,
  version                 bigint not null default 1,
  created_at              timestamptz not null default now(),
  updated_at              timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  constraint billing_records_meter unique (workspace_id, external_meter_id),
  unique (team_id, id)
);
create index on billing_records (shard, id);
create index billing_records_of_workspace on billing_records (workspace_id, id);
create index billing_records_available on billing_records (
  workspace_id,
  (greatest(total_of_account_micros, total_micros + granted_micros) - used_micros - held_micros - expired_micros),
  id
);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is only ever added to', tg_table_name;
end $$;

create table credit_ledger (
  id            text primary key,
  team_id       text not null,
  billing_id    text not null,
  amount_micros bigint not null,
  total_micros  bigint not null,
  token_id      text not null,
  request_id    text not null,
  created_at    timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id)
);
create index on credit_ledger (billing_id, id);
create index credit_ledger_by_time on credit_ledger (billing_id, created_at);
create trigger credit_ledger_append_only before update or delete or truncate on credit_ledger
  for each statement execute function refuse_change();

-- Corrections of used credits. Redis applies number n of a record only after n - 1, so none counts twice. The id is the
-- identity of the event in the books. The void of a grant that has begun is one of amount 0 that names it: one order for all that
-- Redis must do once.
create table adjustments (
  id            text primary key,
  team_id       text not null,
  billing_id    text not null,
  number        int not null,
  amount_micros bigint not null,
  usage_name    text not null,
  day           date not null,
  reason        text not null,
  grant_id      text,
  class         int,
  void_number   int,
  before_micros bigint,
  grant_micros  bigint,
  token_id      text not null,
  request_id    text not null,
  created_at    timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id),
  unique (billing_id, number)
);
create index adjustments_of_grants on adjustments (billing_id, grant_id) where grant_id is not null;
create index adjustments_by_day on adjustments (billing_id, day) where amount_micros <> 0;
create trigger adjustments_append_only before update or delete or truncate on adjustments
  for each statement execute function refuse_change();

-- All grants of one priority and end, but those in total_micros: of priority 50 without an end, as first credits and refills are. What
-- has begun is a sum, so no cost grows with their number. By its number lines of the books say what they do to a class.
create table grant_classes (
  billing_id      text not null,
  ref             text not null,
  number          int not null,
  team_id         text not null,
  priority        smallint not null check (priority between 0 and 100),
  ends_at         bigint,
  rolls_until     bigint check (rolls_until > ends_at),
  roll_max_micros bigint not null default 0,
  first_version   bigint not null,
  begun_micros    bigint not null default 0,
  primary key (billing_id, ref),
  unique (billing_id, number),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index grant_classes_by_end on grant_classes (billing_id, (coalesce(rolls_until, ends_at, 9000000000000000)));

-- All credits that a record was ever given, the first ones too. before_micros is what stands before it in its class; null until it is
-- counted as begun. What is voided becomes a class of its own, void_number, but for one that rolls over, which is one already.
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
  voided_at     bigint,
  void_reason   text,
  void_number   int,
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
create index grants_of_record_by_beginning on grants (billing_id, begins_at);
create index grants_of_class on grants (billing_id, class);
-- What begins, ends or is about to: each is looked for by its time.
create index grants_by_beginning on grants (begins_at) where voided_at is null;
create index grants_by_end on grants ((coalesce(rolls_until, expires_at))) where expires_at is not null and voided_at is null;

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

-- What crossed an alert, as the events say. A crossing that comes again, by a repetition or after a loss, is the same row.
create table alerts_told (
  id          text primary key,
  team_id     text not null,
  billing_id  text not null,
  name        text not null,
  -- What the alert said when it was crossed.
  "when"      json not null,
  event_id    text not null,
  at          bigint not null,
  used_micros bigint not null,
  -- Which arming of the alert it ended.
  armed       text not null,
  created_at  timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  unique (billing_id, name, armed)
);
create index on alerts_told (billing_id, id);
create index on alerts_told (created_at);

-- What was told of a record's credits: they are exhausted once until they are replenished. `times` numbers it.
create table credit_states (
  billing_id   text primary key,
  team_id      text not null,
  times        bigint not null,
  is_exhausted boolean not null,
  changed_at   timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index credit_states_exhausted on credit_states (billing_id) where is_exhausted;

-- Billing records to look at for webhooks: their credits may be exhausted now, or replenished. Work to do that outlives the
-- process that noticed it: Redis says what is left, and may be unavailable. `mark` changes with every note; a note is removed
-- only while its mark is still the same.
create sequence credit_looks_seq;
create table credit_looks (
  billing_id text primary key,
  team_id    text not null,
  mark       bigint not null default nextval('credit_looks_seq'),
  look_at    timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index on credit_looks (look_at);
