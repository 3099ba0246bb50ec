-- What the consumer and its jobs keep beside the books in ClickHouse.

create table job_watermarks (
  job text primary key,
  at  bigint not null
);

-- Billing records whose balance in Redis may lack what the books have: work to do that outlives the process that noticed
-- it. `mark` changes with every note; whoever settles a record removes the note only if its mark is still the same. A
-- record that was taken waits until `next_attempt_at`; what it failed before is in `attempts`.
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

-- Billing records that the last comparison with the books did not find exact. The one that finds a record exact removes its row.
-- When the last comparison of all records began stands in job_watermarks, as 'reconciled'.
create table unproved_records (
  billing_id             text primary key,
  team_id                text not null,
  workspace_id           text not null,
  status                 text not null check (status in ('MISSING', 'TOO_MUCH', 'ON_ITS_WAY')),
  difference_micros      bigint not null,
  held_difference_micros bigint not null,
  -- Since when it has this status.
  since                  timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index on unproved_records (workspace_id, status, billing_id);

-- Days of a billing record whose sums in usage_days are not, or no longer, complete; of unmetered verifications `billing_id` is the
-- workspace's id. `mark` changes with every change.
create sequence usage_marks_seq;
create table usage_marks (
  billing_id   text not null,
  workspace_id text not null default '',
  day          date not null,
  mark         bigint not null default nextval('usage_marks_seq'),
  primary key (billing_id, day)
);
create index on usage_marks (day);
create index on usage_marks (workspace_id, day);

-- Usage that was lost with a Redis and reported to the operator: verifications after a number of an epoch that neither
-- the books nor Redis know. Without an amount nobody knows what they cost. Statements tell of them.
create table usage_losses (
  billing_id    text not null,
  epoch         bigint not null,
  after_seq     bigint not null,
  events        bigint not null,
  amount_micros bigint,
  found_at      timestamptz not null default now(),
  primary key (billing_id, epoch, after_seq)
);

-- Months of a workspace that are closed, or being closed. From the moment on that such a row is there, no adjustment goes into the
-- month, and events of it that arrive are noted in late_months. `tx` orders it with the transactions of those who note.
-- Instants in Unix ms; the end is the first one that is no more in it.
-- `waiting`: what kept the last look from closing it.
create table workspace_months (
  workspace_id        text not null,
  month               text not null check (month ~ '^\d{4}-\d{2}$'),
  team_id             text not null,
  timezone            text not null,
  start_ms            bigint not null,
  end_ms              bigint not null,
  start_day           date not null,
  end_day             date not null,
  accepts_differences boolean not null default false,
  waiting             json,
  looked_at           timestamptz,
  records             bigint,
  closed_at           timestamptz,
  tx                  xid8 not null default pg_current_xact_id(),
  created_at          timestamptz not null default now(),
  primary key (workspace_id, month),
  foreign key (team_id, workspace_id) references workspaces (team_id, id)
);
create index on workspace_months (workspace_id, end_ms);
create index workspace_months_open on workspace_months (created_at) where closed_at is null;

-- The line of a record in a closed month: what it began and ended with, and all between. It never changes.
create table statement_lines (
  workspace_id           text not null,
  month                  text not null,
  billing_id             text not null,
  team_id                text not null,
  end_ms                 bigint not null,
  opening_total_micros   bigint not null,
  opening_used_micros    bigint not null,
  opening_expired_micros bigint not null,
  total_micros           bigint not null,
  used_micros            bigint not null,
  expired_micros         bigint not null,
  by_name                json not null,
  movements              json not null,
  proof                  json not null,
  created_at             timestamptz not null default now(),
  primary key (workspace_id, month, billing_id),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index on statement_lines (billing_id, end_ms);
create trigger statement_lines_append_only before update or delete or truncate on statement_lines
  for each statement execute function refuse_change();

-- Closed months of a record for which events arrived later. `told`: what lines of later months have told of it, by usage name;
-- `is_open`: more may be to tell. `mark` changes with each note.
create sequence late_months_seq;
create table late_months (
  billing_id text not null,
  month      text not null,
  team_id    text not null,
  told       json not null default '{}',
  is_open    boolean not null default true,
  mark       bigint not null default nextval('late_months_seq'),
  primary key (billing_id, month)
);

-- Whoever marks a day of a closed month has put an event of it into the books before.
create function note_late_months() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into late_months (billing_id, month, team_id)
    select b.id, m.month, m.team_id
    from made join billing_records b on b.id = made.billing_id
    join workspace_months m on m.workspace_id = b.workspace_id
      and m.end_ms > extract(epoch from made.day) * 1000 and m.start_ms < extract(epoch from made.day + 1) * 1000
    group by b.id, m.month, m.team_id
    order by b.id, m.month
    on conflict (billing_id, month) do update set is_open = true, mark = nextval('late_months_seq');
  return null;
end $$;
create trigger note_late_months_new after insert on usage_marks referencing new table as made
  for each statement execute function note_late_months();
create trigger note_late_months_again after update on usage_marks referencing new table as made
  for each statement execute function note_late_months();
