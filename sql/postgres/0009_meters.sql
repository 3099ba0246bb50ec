-- External meters: where usage is billed elsewhere, and what is on its way there.

-- `secret_sealed` is sealed as webhooks' secrets are. `measure` and `unit_micros`: what a destination that takes one whole number
-- counts, and how much one is. `backfilled_to`: the record up to which days since `starts_at` were noted; null once all are.
-- One process at a time sends, until claimed_until; nothing is sent before next_at, which each failure puts off. `failed_at`: when an
-- event last failed for good. `restored_at`: when Postgres was last restored from a backup; nobody knows what of the hours before was
-- sent.
create table meter_destinations (
  id            text primary key,
  team_id       text not null references teams,
  workspace_id  text not null,
  kind          text not null check (kind in ('stripe', 'openmeter', 'cloudevents', 'lago', 'http')),
  name          text not null,
  url           text not null check (length(url) <= 2048),
  event_names   json not null,
  measure       text not null check (measure in ('credits', 'events')),
  unit_micros   bigint not null check (unit_micros > 0),
  batch_size    int not null check (batch_size between 1 and 100),
  starts_at     timestamptz not null check (starts_at = date_trunc('hour', starts_at, 'UTC')),
  backfilled_to text default '',
  enabled       boolean not null default true,
  secret_sealed bytea,
  sealed_under  text,
  claimed_until timestamptz,
  next_at       timestamptz not null default now(),
  attempts      int not null default 0,
  failing_since timestamptz,
  last_error    text,
  last_sent_at  timestamptz,
  failed_at     timestamptz,
  restored_at   timestamptz,
  deleted_at    timestamptz,
  version       bigint not null default 1,
  created_at    timestamptz not null default now(),
  updated_at    timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  unique (team_id, id)
);
create index meter_destinations_of_workspace on meter_destinations (workspace_id, id) where deleted_at is null;
create index meter_destinations_sealed on meter_destinations (sealed_under, id) where deleted_at is null;

-- What a destination is told of an hour of a record and a usage name. Its identity there follows from destination, record, hour, name and
-- number, the first being 0 and each later one a correction. `micros` and `events`: by how much it changes what was planned of the hour
-- before; `quantity`: micro-units to send, which differ from it by what is carried on. CARRIED: there is nothing to send yet; LEFT_OUT:
-- the record or the name is not billed there. `tried_at`: since when the destination may have it, although nobody knows.
create table meter_events (
  id             text primary key,
  destination_id text not null,
  team_id        text not null,
  billing_id     text not null,
  hour           timestamptz not null,
  usage_name     text not null,
  number         int not null,
  micros         bigint not null,
  events         bigint not null,
  quantity       bigint not null,
  external_id    text not null,
  event_name     text not null,
  state          text not null check (state in ('WAITING', 'SENT', 'FAILED', 'CARRIED', 'LEFT_OUT')),
  tried_at       timestamptz,
  ended_at       timestamptz,
  error          text,
  created_at     timestamptz not null default now(),
  foreign key (team_id, destination_id) references meter_destinations (team_id, id),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  unique (destination_id, billing_id, hour, usage_name, number)
) with (fillfactor = 70);
create index meter_events_waiting on meter_events (destination_id, hour, id) where state = 'WAITING';
create index meter_events_failed on meter_events (destination_id, id) where state = 'FAILED';
create index on meter_events (destination_id, id);
create index on meter_events (created_at);

-- What the events of a month add up to, by state: kept by triggers, it outlives the events. Whoever changes states locks the destination
-- before, so that no two wait for each other's sums.
create table meter_sums (
  destination_id text not null,
  month          text not null,
  state          text not null,
  team_id        text not null,
  number         bigint not null,
  micros         numeric not null,
  events         numeric not null,
  quantity       numeric not null,
  primary key (destination_id, month, state),
  foreign key (team_id, destination_id) references meter_destinations (team_id, id)
);

create function sum_meter_events() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
declare sign int := tg_argv[0];
begin
  insert into meter_sums as known (destination_id, month, state, team_id, number, micros, events, quantity)
    select destination_id, to_char(hour at time zone 'UTC', 'YYYY-MM'), state, team_id,
           sign * count(*), sign * sum(micros), sign * sum(events), sign * sum(quantity)
    from changed group by 1, 2, 3, 4 order by 1, 2, 3
    on conflict (destination_id, month, state) do update set number = known.number + excluded.number,
      micros = known.micros + excluded.micros, events = known.events + excluded.events, quantity = known.quantity + excluded.quantity;
  return null;
end $$;
create trigger sum_new after insert on meter_events referencing new table as changed
  for each statement execute function sum_meter_events('1');
create trigger sum_before after update on meter_events referencing old table as changed
  for each statement execute function sum_meter_events('-1');
create trigger sum_now after update on meter_events referencing new table as changed
  for each statement execute function sum_meter_events('1');

-- What is carried on of a record and a usage name: below a unit, or less than nothing.
create table meter_rests (
  destination_id text not null,
  billing_id     text not null,
  usage_name     text not null,
  team_id        text not null,
  micros         bigint not null,
  primary key (destination_id, billing_id, usage_name),
  foreign key (team_id, destination_id) references meter_destinations (team_id, id)
);

-- Days of a record of which something may have to be planned for a destination. `planned_to`: up to when that was done; `mark` changes
-- with every change.
create sequence meter_days_seq;
create table meter_days (
  destination_id text not null,
  day            date not null,
  billing_id     text not null,
  team_id        text not null,
  planned_to     timestamptz not null default '-infinity',
  mark           bigint not null default nextval('meter_days_seq'),
  primary key (destination_id, day, billing_id),
  foreign key (team_id, destination_id) references meter_destinations (team_id, id)
);

create index on meter_days (destination_id, planned_to);

-- Whoever marks a day has put its events into the books before.
create function note_meter_days() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into meter_days (destination_id, day, billing_id, team_id)
    select d.id, made.day, made.billing_id, d.team_id
    from made join meter_destinations d on d.workspace_id = made.workspace_id and d.deleted_at is null
    where made.billing_id <> made.workspace_id and made.day >= (d.starts_at at time zone 'UTC')::date
    order by 1, 2, 3
    on conflict (destination_id, day, billing_id) do update set mark = nextval('meter_days_seq'), planned_to = '-infinity';
  return null;
end $$;
create trigger note_meter_days_new after insert on usage_marks referencing new table as made
  for each statement execute function note_meter_days();
create trigger note_meter_days_again after update on usage_marks referencing new table as made
  for each statement execute function note_meter_days();

grant select, insert, update on meter_destinations to keytally_api;
grant select on meter_sums, meter_days to keytally_api, keytally_consumer;
grant select, update (state, tried_at, ended_at, error, quantity, external_id, event_name) on meter_events to keytally_api;
grant select, update (micros) on meter_rests to keytally_api;
grant select, insert, delete on meter_events to keytally_consumer;
grant select, insert, update, delete on meter_rests to keytally_consumer;
grant insert, update, delete on meter_days to keytally_consumer;
grant usage on sequence meter_days_seq to keytally_consumer;
grant select, update (backfilled_to) on meter_destinations to keytally_consumer;
grant select, update (claimed_until, next_at, attempts, failing_since, last_error, last_sent_at, failed_at)
  on meter_destinations to keytally_webhooks;
grant select, update (state, tried_at, ended_at, error) on meter_events to keytally_webhooks;
grant select on meter_days to keytally_webhooks;

do $$
declare of_teams regclass;
begin
  foreach of_teams in array array['meter_destinations', 'meter_events', 'meter_sums', 'meter_rests', 'meter_days']::regclass[] loop
    execute format('alter table %s enable row level security', of_teams);
    execute format('create policy team on %s to keytally_api using (is_of_team(team_id))', of_teams);
    execute format('create policy jobs on %s to keytally_consumer using (true)', of_teams);
  end loop;
end $$;
create policy sending on meter_destinations to keytally_webhooks using (true);
create policy sending on meter_events to keytally_webhooks using (true);
create policy sending on meter_days to keytally_webhooks using (true);
