-- As in 0005 and 0014, with limits over windows, and with what a billing record gathers by requests: grants, refills, schedules,
-- adjustments. Those rows stay, so their bytes count for ever, as a deleted key's do. Grants that a schedule makes by itself do not
-- count: a team must not run out because time passes. A void does not either: it is part of its grant, and takes credits back.

-- The limits of a key stand in each copy of its record, those of a workspace in each shard; counters take 32 bytes and 48 for each.
create or replace function counted_bytes(w workspaces) returns bigint language sql immutable
  return case when w.removed_at is not null then 0
    else octet_length(w.name) + 64 * (192 + 32 * cardinality(w.default_allowed_ips) + coalesce(octet_length(w.default_alerts::text), 0)
                                      + coalesce(octet_length(w.default_limits::text), 0)) end;

create or replace function counted_bytes(k api_keys) returns bigint language sql immutable
  return octet_length(k.name)
    + (1 + k.secrets_in_grace) * (512 + 2 * coalesce(octet_length(k.customer_id), 0) + 3 * coalesce(octet_length(k.external_meter_id), 0)
         + coalesce(octet_length(k.metadata::text), 0) + 32 * coalesce(cardinality(k.allowed_ips), 0) + 16 * k.grants
         + coalesce(octet_length(k.limits::text), 0))
    + coalesce(32 + 48 * json_array_length(k.limits), 0);

create or replace function counted_bytes(b billing_records) returns bigint language sql immutable
  return 512 + 3 * octet_length(b.external_meter_id) + 3 * coalesce(octet_length(b.alerts::text), 0)
    + coalesce(octet_length(b.limits::text) + 32 + 48 * json_array_length(b.limits), 0);

create function counted_bytes(g grants) returns bigint language sql immutable
  return case when g.schedule_id is not null then 0
    else 512 + coalesce(octet_length(g.name), 0) + coalesce(octet_length(g.metadata::text), 0) end;

create function counted_bytes(s grant_schedules) returns bigint language sql immutable
  return 256 + octet_length(s.timezone) + coalesce(octet_length(s.name), 0);

create function counted_bytes(l credit_ledger) returns bigint language sql immutable return 192;

create function counted_bytes(a adjustments) returns bigint language sql immutable
  return case when a.grant_id is not null then 0 else 256 + octet_length(a.usage_name) + octet_length(a.reason) end;

create function count_row() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, (null, 0, 0, 0, 0, 0, counted_bytes(new))::team_usage);
  return null;
end $$;

-- Deferred to the commit, as in 0005.
create constraint trigger count_new after insert on grants deferrable initially deferred
  for each row when (counted_bytes(new) > 0) execute function count_row();
create constraint trigger count_new after insert on grant_schedules deferrable initially deferred
  for each row execute function count_row();
create constraint trigger count_new after insert on credit_ledger deferrable initially deferred
  for each row execute function count_row();
create constraint trigger count_new after insert on adjustments deferrable initially deferred
  for each row when (counted_bytes(new) > 0) execute function count_row();

create or replace view counted_team_usage with (security_invoker) as
  select t.id as team_id, coalesce(w.live, 0) as workspaces, coalesce(k.live, 0) as keys, coalesce(s.live, 0) as scopes,
         coalesce(a.live, 0) as access_tokens, coalesce(b.live, 0) as billing_records,
         (coalesce(w.bytes, 0) + coalesce(k.bytes, 0) + coalesce(s.bytes, 0) + coalesce(a.bytes, 0) + coalesce(b.bytes, 0)
          + coalesce(g.bytes, 0) + coalesce(h.bytes, 0) + coalesce(l.bytes, 0) + coalesce(d.bytes, 0))::bigint as stored_bytes
  from teams t
  left join (select team_id, count(*) filter (where deleted_at is null) as live, sum(counted_bytes(r)) as bytes
             from workspaces r group by team_id) w on w.team_id = t.id
  left join (select r.team_id, count(*) filter (where r.deleted_at is null) as live, sum(counted_bytes(r)) as bytes
             from api_keys r join workspaces o on o.id = r.workspace_id
             where o.deleted_at is null or r.id > o.keys_removed_to group by r.team_id) k on k.team_id = t.id
  left join (select team_id, count(*) filter (where deleted_at is null and removed_at is null) as live, sum(counted_bytes(r)) as bytes
             from scopes r group by team_id) s on s.team_id = t.id
  left join (select team_id, count(*) filter (where revoked_at is null) as live, sum(counted_bytes(r)) as bytes
             from access_tokens r group by team_id) a on a.team_id = t.id
  left join (select team_id, count(*) as live, sum(counted_bytes(r)) as bytes
             from billing_records r group by team_id) b on b.team_id = t.id
  left join (select team_id, sum(counted_bytes(r)) as bytes from grants r group by team_id) g on g.team_id = t.id
  left join (select team_id, sum(counted_bytes(r)) as bytes from grant_schedules r group by team_id) h on h.team_id = t.id
  left join (select team_id, sum(counted_bytes(r)) as bytes from credit_ledger r group by team_id) l on l.team_id = t.id
  left join (select team_id, sum(counted_bytes(r)) as bytes from adjustments r group by team_id) d on d.team_id = t.id;

insert into team_usage select * from counted_team_usage
  on conflict (team_id) do update set stored_bytes = excluded.stored_bytes;
