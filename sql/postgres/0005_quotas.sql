-- How much each team has stored, and how much it may. Counters, because a count would read all rows of a team. Triggers
-- count every change, whoever makes it; the api's connections name the operator's limits in `keytally.quotas`, and only
-- they are refused.

create table team_usage (
  team_id         text primary key references teams,
  workspaces      bigint not null default 0,
  keys            bigint not null default 0,
  scopes          bigint not null default 0,
  access_tokens   bigint not null default 0,
  billing_records bigint not null default 0,
  stored_bytes    bigint not null default 0
) with (fillfactor = 50);

-- The limits of a team that differ from the operator's defaults, by the names of the columns above, and
-- verify_per_second and api_per_second.
create table team_quotas (
  team_id    text primary key references teams,
  limits     jsonb not null,
  updated_at timestamptz not null default now()
);

-- How many scopes a key is granted, and how many of its earlier secrets are in their time of grace: each takes memory in
-- Redis. Keys that are older than these columns count without their grants until they are granted others.
alter table api_keys
  add column grants smallint not null default 0,
  add column secrets_in_grace smallint not null default 0;
-- Before the triggers, which would count these changes a second time.
lock table key_texts in share row exclusive mode;
update api_keys k set secrets_in_grace = g.number
  from (select key_id, count(*) as number from key_texts where valid_until is not null group by key_id) g where g.key_id = k.id;

-- What a row counts for: what its copies take in Redis, rounded up, and its texts in Postgres once. A workspace's defaults
-- and its scopes have a copy in each of 64 shards, a key's record one for each of its secrets. An address counts 32 bytes.
create function counted_bytes(w workspaces) returns bigint language sql immutable
  return case when w.removed_at is not null then 0
    else octet_length(w.name) + 64 * (192 + 32 * cardinality(w.default_allowed_ips)) end;

create function counted_bytes(s scopes) returns bigint language sql immutable
  return case when s.removed_at is not null then 0
    else octet_length(s.name) + coalesce(octet_length(s.description), 0) + 64 * (128 + octet_length(s.representation)) end;

create function counted_bytes(k api_keys) returns bigint language sql immutable
  return octet_length(k.name)
    + (1 + k.secrets_in_grace) * (512 + 2 * coalesce(octet_length(k.customer_id), 0) + 3 * coalesce(octet_length(k.external_meter_id), 0)
         + coalesce(octet_length(k.metadata::text), 0) + 32 * coalesce(cardinality(k.allowed_ips), 0) + 16 * k.grants);

-- Revoked tokens leave Redis and are not counted: a team that replaces its tokens every day never runs out.
create function counted_bytes(t access_tokens) returns bigint language sql immutable
  return case when t.revoked_at is not null then 0 else 512 + octet_length(t.name) + 32 * coalesce(cardinality(t.workspace_ids), 0) end;

create function counted_bytes(b billing_records) returns bigint language sql immutable
  return 512 + 3 * octet_length(b.external_meter_id);

-- Adds to the counters of a team, and refuses what goes beyond a limit. What gives back always passes, also above a limit
-- that was lowered. The error's detail is for the api.
create function count_use(team text, more team_usage) returns void
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  used jsonb;
  limits jsonb := nullif(current_setting('keytally.quotas', true), '')::jsonb;
  quota record;
begin
  insert into team_usage as known
  values (team, more.workspaces, more.keys, more.scopes, more.access_tokens, more.billing_records, more.stored_bytes)
  on conflict (team_id) do update set
    workspaces = known.workspaces + excluded.workspaces,
    keys = known.keys + excluded.keys,
    scopes = known.scopes + excluded.scopes,
    access_tokens = known.access_tokens + excluded.access_tokens,
    billing_records = known.billing_records + excluded.billing_records,
    stored_bytes = known.stored_bytes + excluded.stored_bytes
  returning to_jsonb(known) - 'team_id' into used;
  if limits is null then return; end if;
  limits := limits || coalesce((select q.limits from team_quotas q where q.team_id = team), '{}');
  for quota in
    select name, (limits ->> name)::bigint as most, amount::bigint as used, (to_jsonb(more) ->> name)::bigint as added
    from jsonb_each_text(used) as counted (name, amount)
  loop
    if quota.added > 0 and quota.used > quota.most then
      raise exception 'quota exceeded' using errcode = 'KQ403', detail = json_build_object(
        'quota', quota.name, 'limit', quota.most, 'used', quota.used - quota.added, 'added', quota.added)::text;
    end if;
  end loop;
end $$;
revoke execute on function count_use from public;

create function count_workspace() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  more team_usage;
  was_live int := 0;
  had_bytes bigint := 0;
begin
  if tg_op = 'UPDATE' then
    was_live := (old.deleted_at is null)::int;
    had_bytes := counted_bytes(old);
  end if;
  more.workspaces := (new.deleted_at is null)::int - was_live;
  more.stored_bytes := counted_bytes(new) - had_bytes;
  -- The keys of a deleted workspace leave Redis page by page (remove-deleted.ts), and count until then.
  if tg_op = 'UPDATE' and new.keys_removed_to > old.keys_removed_to then
    perform from team_usage where team_id = new.team_id for update;
    select - count(*) filter (where k.deleted_at is null), more.stored_bytes - coalesce(sum(counted_bytes(k)), 0)
      into more.keys, more.stored_bytes
      from api_keys k where k.workspace_id = new.id and k.id > old.keys_removed_to and k.id <= new.keys_removed_to;
  end if;
  more := (null, more.workspaces, coalesce(more.keys, 0), 0, 0, 0, more.stored_bytes);
  perform count_use(new.team_id, more);
  return null;
end $$;

create function count_scope() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  was_live int := 0;
  had_bytes bigint := 0;
begin
  if tg_op = 'UPDATE' then
    was_live := (old.deleted_at is null and old.removed_at is null)::int;
    had_bytes := counted_bytes(old);
  end if;
  perform count_use(new.team_id, (null, 0, 0, (new.deleted_at is null and new.removed_at is null)::int - was_live, 0, 0,
                                  counted_bytes(new) - had_bytes)::team_usage);
  return null;
end $$;

-- A deleted key's record stays, in Redis and here, and verifies as DELETED: its bytes count until its workspace is deleted.
create function count_key() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  was_live int := 0;
  had_bytes bigint := 0;
begin
  if tg_op = 'UPDATE' then
    was_live := (old.deleted_at is null)::int;
    had_bytes := counted_bytes(old);
    -- Of this and the page's removal, the second to come sees the first.
    perform from team_usage where team_id = new.team_id for update;
    -- Its workspace was deleted and its page given back: the row counts no more (a secret's time of grace has ended).
    if exists (select from workspaces w where w.id = new.workspace_id and w.deleted_at is not null and new.id <= w.keys_removed_to) then
      return null;
    end if;
  end if;
  perform count_use(new.team_id, (null, 0, (new.deleted_at is null)::int - was_live, 0, 0, 0,
                                  counted_bytes(new) - had_bytes)::team_usage);
  return null;
end $$;

create function count_token() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  was_live int := 0;
  had_bytes bigint := 0;
begin
  if tg_op = 'UPDATE' then
    was_live := (old.revoked_at is null)::int;
    had_bytes := counted_bytes(old);
  end if;
  perform count_use(new.team_id, (null, 0, 0, 0, (new.revoked_at is null)::int - was_live, 0,
                                  counted_bytes(new) - had_bytes)::team_usage);
  return null;
end $$;

create function count_billing() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, (null, 0, 0, 0, 0, 1, counted_bytes(new))::team_usage);
  return null;
end $$;

create function count_secret_in_grace() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  update api_keys set secrets_in_grace = secrets_in_grace
    + case when tg_op = 'UPDATE' and new.valid_until is not null then 1 else -1 end
  where id = old.key_id;
  return null;
end $$;

-- Deferred to the commit: a team's counters are locked for no longer than the commit takes. After them a transaction takes no
-- lock but the counters of other teams, so one that changes rows of several teams locks their counters in the order of their
-- ids, or has one team at a time. Constraint triggers are the ones that can be deferred.
create constraint trigger count_new after insert on workspaces deferrable initially deferred
  for each row execute function count_workspace();
create constraint trigger count_changed after update on workspaces deferrable initially deferred
  for each row when (counted_bytes(old) <> counted_bytes(new) or old.keys_removed_to <> new.keys_removed_to
                     or (old.deleted_at is null) <> (new.deleted_at is null))
  execute function count_workspace();
create constraint trigger count_new after insert on scopes deferrable initially deferred
  for each row execute function count_scope();
create constraint trigger count_changed after update on scopes deferrable initially deferred
  for each row when (counted_bytes(old) <> counted_bytes(new) or (old.deleted_at is null) <> (new.deleted_at is null))
  execute function count_scope();
create constraint trigger count_new after insert on api_keys deferrable initially deferred
  for each row execute function count_key();
create constraint trigger count_changed after update on api_keys deferrable initially deferred
  for each row when (counted_bytes(old) <> counted_bytes(new) or (old.deleted_at is null) <> (new.deleted_at is null))
  execute function count_key();
create constraint trigger count_new after insert on access_tokens deferrable initially deferred
  for each row execute function count_token();
create constraint trigger count_changed after update on access_tokens deferrable initially deferred
  for each row when (counted_bytes(old) <> counted_bytes(new) or (old.revoked_at is null) <> (new.revoked_at is null))
  execute function count_token();
create constraint trigger count_new after insert on billing_records deferrable initially deferred
  for each row execute function count_billing();

create trigger count_in_grace after update on key_texts
  for each row when ((old.valid_until is null) <> (new.valid_until is null)) execute function count_secret_in_grace();
create trigger count_ended after delete on key_texts
  for each row when (old.valid_until is not null) execute function count_secret_in_grace();

-- As in 0004, but it locks the keys first, in order, as a rotation does before it touches secrets, and at the end the
-- counters of the teams, in order: two of these at once, or one beside a rotation, never wait for each other.
create or replace function remove_ended_secrets(at_most int) returns int
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  hashes text[];
  teams text[];
begin
  select array_agg(hash), array_agg(distinct team_id) into hashes, teams from (
    select hash, team_id from key_texts
    where replaced_at < now() - interval '1 day'
      and replaced_at < coalesce((select created_at from changes where kind = 'key' order by id limit 1), now()) - interval '1 hour'
      and coalesce(valid_until, 0) < extract(epoch from now() - interval '1 day') * 1000
    order by replaced_at limit at_most) as ended;
  perform from api_keys where id in (select key_id from key_texts where hash = any(hashes)) order by id for no key update;
  delete from key_texts where hash = any(hashes);
  get diagnostics at_most = row_count;
  perform from team_usage where team_id = any(teams) order by team_id for update;
  return at_most;
end $$;

-- The counters as the rows have them: what team_usage must say, at the cost of reading all rows.
create view counted_team_usage with (security_invoker) as
  select t.id as team_id, coalesce(w.live, 0) as workspaces, coalesce(k.live, 0) as keys, coalesce(s.live, 0) as scopes,
         coalesce(a.live, 0) as access_tokens, coalesce(b.live, 0) as billing_records,
         (coalesce(w.bytes, 0) + coalesce(k.bytes, 0) + coalesce(s.bytes, 0) + coalesce(a.bytes, 0) + coalesce(b.bytes, 0))::bigint as stored_bytes
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
             from billing_records r group by team_id) b on b.team_id = t.id;

insert into team_usage select * from counted_team_usage
  on conflict (team_id) do update set (workspaces, keys, scopes, access_tokens, billing_records, stored_bytes) =
    row (excluded.workspaces, excluded.keys, excluded.scopes, excluded.access_tokens, excluded.billing_records, excluded.stored_bytes);

grant select on team_usage, team_quotas, counted_team_usage to keytally_api;
grant insert, update, delete on team_quotas to keytally_api;
alter table team_usage enable row level security;
alter table team_quotas enable row level security;
create policy team on team_usage to keytally_api using (is_of_team(team_id));
create policy team on team_quotas to keytally_api using (is_of_team(team_id));
