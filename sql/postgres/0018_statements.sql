-- Lists of billing records. total_of_account_micros is a copy of an account's total, as held_micros and expired_micros are; what is
-- declared and has begun since then is in total_micros and granted_micros. Totals never fall.
alter table billing_records add column total_of_account_micros bigint not null default 0;


create index billing_records_of_workspace on billing_records (workspace_id, id);
create index billing_records_available on billing_records (
  workspace_id,
  (greatest(total_of_account_micros, total_micros + granted_micros) - used_micros - held_micros - expired_micros),
  id
);
-- The meters of a customer, each found by one step.
create index api_keys_meters on api_keys (workspace_id, customer_id, external_meter_id)
  where customer_id is not null and external_meter_id is not null;

grant update (held_micros, expired_micros, total_of_account_micros) on billing_records to keytally_consumer;

-- In whose days and months statements are made.
alter table workspaces add column timezone text not null default 'UTC';

-- Months of a workspace that are closed, or being closed. From the moment on that such a row is there, no adjustment goes into the
-- month, and events of it that arrive are noted in late_months. `tx` orders it with the transactions of those who note.
-- Instants in Unix ms; the end is the first one that is no more in it. `after_billing`: how far lines were looked for, in the order
-- of ids. `waiting`: what kept the last look from closing it.
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
  after_billing       text not null default '',
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

-- When the next month of a workspace closes by itself, in Unix ms; null: nobody has looked yet.
alter table workspaces add column month_due_at bigint;
create index workspaces_month_due on workspaces (month_due_at nulls first);

create index grants_of_record_by_beginning on grants (billing_id, begins_at);
create index grants_of_class on grants (billing_id, class);
create index credit_ledger_by_time on credit_ledger (billing_id, created_at);
create index adjustments_by_day on adjustments (billing_id, day) where amount_micros <> 0;

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

grant select, insert on workspace_months to keytally_api;
grant update (accepts_differences, looked_at) on workspace_months to keytally_api;
grant select on statement_lines, late_months to keytally_api;
grant select, insert, update on workspace_months to keytally_consumer;
grant select, insert on statement_lines to keytally_consumer;
grant select, update on late_months to keytally_consumer;
grant select, update (month_due_at) on workspaces to keytally_consumer;
grant select on credit_ledger, adjustments to keytally_consumer;

do $$
declare one regclass;
begin
  foreach one in array array['workspace_months', 'statement_lines', 'late_months']::regclass[] loop
    execute format('alter table %s enable row level security', one);
    execute format('create policy team on %s to keytally_api using (is_of_team(team_id))', one);
    execute format('create policy jobs on %s to keytally_consumer using (true)', one);
  end loop;
end $$;
