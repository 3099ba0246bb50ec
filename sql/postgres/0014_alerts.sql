-- Alerts: what a record's credits are watched for, and which crossings were told.

-- Of a record, null: its workspace's.
alter table billing_records add column alerts json;
alter table workspaces add column default_alerts json;

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
  -- Which arming of the alert it ended (docs/accounts-design.md).
  armed       text not null,
  created_at  timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  unique (billing_id, name, armed)
);
create index on alerts_told (billing_id, id);
create index on alerts_told (created_at);

grant select on alerts_told to keytally_api;
grant select, insert, delete on alerts_told to keytally_consumer;
alter table alerts_told enable row level security;
create policy team on alerts_told to keytally_api using (is_of_team(team_id));
create policy jobs on alerts_told to keytally_consumer using (true);

-- As in 0005, with the alerts: those of a workspace have a copy in each of 64 shards, those of a record stand in its settings and
-- in its state.
create or replace function counted_bytes(w workspaces) returns bigint language sql immutable
  return case when w.removed_at is not null then 0
    else octet_length(w.name) + 64 * (192 + 32 * cardinality(w.default_allowed_ips) + coalesce(octet_length(w.default_alerts::text), 0)) end;

create or replace function counted_bytes(b billing_records) returns bigint language sql immutable
  return 512 + 3 * octet_length(b.external_meter_id) + 3 * coalesce(octet_length(b.alerts::text), 0);

create function count_changed_billing() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, (null, 0, 0, 0, 0, 0, counted_bytes(new) - counted_bytes(old))::team_usage);
  return null;
end $$;
create constraint trigger count_changed after update on billing_records deferrable initially deferred
  for each row when (counted_bytes(old) <> counted_bytes(new)) execute function count_changed_billing();
