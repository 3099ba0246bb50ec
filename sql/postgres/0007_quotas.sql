-- How much each team has stored, and how much it may. Counters, because a count would read all rows of a team. Triggers
-- count every change, whoever makes it; the api's connections name the operator's limits in `keytally.quotas`, and only
-- they are refused.

-- `used` by the names of the counters: workspaces, keys, scopes, access_tokens, billing_records, stored_bytes, link_tokens and
-- kept_answer_bytes. One that is not there is 0.
create table team_usage (
  team_id text primary key references teams,
  used    jsonb not null
) with (fillfactor = 50);

-- The limits of a team that differ from the operator's defaults, by the names of the counters above, and
-- verify_per_second and api_per_second.
create table team_quotas (
  team_id    text primary key references teams,
  limits     jsonb not null,
  updated_at timestamptz not null default now()
);

-- What a row counts for, by the names of the counters. stored_bytes: what its copies take in Redis, rounded up, and its texts in
-- Postgres once. A workspace's defaults and its scopes have a copy in each of 64 shards, a key's record one for each of its secrets.
-- An address counts 32 bytes; a counter of a limit takes 32 bytes, and 48 for each.
create function text_bytes(value json) returns int language sql immutable return coalesce(octet_length(value::text), 0);

create function use_of(w workspaces) returns jsonb language sql immutable
  return jsonb_build_object(
    'workspaces', (w.deleted_at is null)::int,
    'stored_bytes', case when w.removed_at is not null then 0 else
      octet_length(w.name) + 64 * (192 + 32 * cardinality(w.default_allowed_ips) + text_bytes(w.default_alerts) + text_bytes(w.default_limits)) end);

create function use_of(s scopes) returns jsonb language sql immutable
  return jsonb_build_object(
    'scopes', (s.deleted_at is null and s.removed_at is null)::int,
    'stored_bytes', case when s.removed_at is not null then 0 else
      octet_length(s.name) + coalesce(octet_length(s.description), 0) + 64 * (128 + octet_length(s.representation)) end);

-- A deleted key's record stays, in Redis and here, and verifies as DELETED: its bytes count until its workspace is deleted.
create function use_of(k api_keys) returns jsonb language sql immutable
  return jsonb_build_object(
    'keys', (k.deleted_at is null)::int,
    'stored_bytes', octet_length(k.name)
      + (1 + k.secrets_in_grace) * (512 + 2 * coalesce(octet_length(k.customer_id), 0) + 3 * coalesce(octet_length(k.external_meter_id), 0)
           + text_bytes(k.metadata) + 32 * coalesce(cardinality(k.allowed_ips), 0) + 16 * k.grants + text_bytes(k.limits))
      + coalesce(32 + 48 * json_array_length(k.limits), 0));

-- Revoked tokens leave Redis and are not counted: a team that replaces its tokens every day never runs out.
create function use_of(t access_tokens) returns jsonb language sql immutable
  return jsonb_build_object(
    'access_tokens', (t.revoked_at is null)::int,
    'stored_bytes', case when t.revoked_at is not null then 0 else
      512 + octet_length(t.name) + 32 * (coalesce(cardinality(t.workspace_ids), 0) + coalesce(cardinality(t.allowed_ips), 0)) end);

-- The alerts of a record stand in its settings and in its state.
create function use_of(b billing_records) returns jsonb language sql immutable
  return jsonb_build_object(
    'billing_records', 1,
    'stored_bytes', 512 + 3 * octet_length(b.external_meter_id) + 3 * text_bytes(b.alerts) + text_bytes(b.external_ids)
      + coalesce(octet_length(b.limits::text) + 32 + 48 * json_array_length(b.limits), 0));

-- What a record gathers by requests counts for ever, as a deleted key's bytes do: the rows stay. Grants that a schedule makes by itself
-- do not count: a team must not run out because time passes. A void does not either: it is part of its grant, and takes credits back.
create function use_of(g grants) returns jsonb language sql immutable
  return jsonb_build_object('stored_bytes', case when g.schedule_id is not null then 0
                                else 512 + coalesce(octet_length(g.name), 0) + text_bytes(g.metadata) end);

create function use_of(s grant_schedules) returns jsonb language sql immutable
  return jsonb_build_object('stored_bytes', 256 + octet_length(s.timezone) + coalesce(octet_length(s.name), 0));

create function use_of(l credit_ledger) returns jsonb language sql immutable return jsonb_build_object('stored_bytes', 192);

create function use_of(a adjustments) returns jsonb language sql immutable
  return jsonb_build_object('stored_bytes', case when a.grant_id is not null then 0 else 256 + octet_length(a.usage_name) + octet_length(a.reason) end);

-- Nothing else bounds how many link tokens and answers a team leaves here, and both stay for a time that their team can't shorten: a
-- link token until 30 days after its end, an answer under an Idempotency-Key for 24 hours.
create function use_of(l link_tokens) returns jsonb language sql immutable return jsonb_build_object('link_tokens', 1);

-- The answer itself, and its row with the entries of two indexes. A request claims its Idempotency-Key first, and keeps the answer at
-- its end.
create function use_of(i idempotency_keys) returns jsonb language sql immutable
  return jsonb_build_object('kept_answer_bytes', coalesce(512 + octet_length(i.answer), 0));

create function plus(a jsonb, b jsonb) returns jsonb language sql immutable
  return coalesce((
    select jsonb_object_agg(name, amount) from (
      select name, sum(amount::bigint)::bigint as amount
      from (select * from jsonb_each_text(a) union all select * from jsonb_each_text(b)) as both_of (name, amount)
      group by name) as summed
    where amount <> 0), '{}');

create function minus(a jsonb, b jsonb) returns jsonb language sql immutable
  return plus(a, (select jsonb_object_agg(name, -amount::bigint) from jsonb_each_text(b) as of_b (name, amount)));

create aggregate sum(jsonb) (sfunc = plus, stype = jsonb, initcond = '{}');

-- Adds to the counters of a team, and refuses what goes beyond a limit. What gives back always passes, also above a limit
-- that was lowered. The error's detail is for the api.
create function count_use(team text, more jsonb) returns void
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  total jsonb;
  limits jsonb := nullif(current_setting('keytally.quotas', true), '')::jsonb;
  quota record;
begin
  insert into team_usage as known values (team, plus(more, '{}'))
  on conflict (team_id) do update set used = plus(known.used, excluded.used) returning used into total;
  if limits is null then return; end if;
  limits := limits || coalesce((select q.limits from team_quotas q where q.team_id = team), '{}');
  for quota in
    select name, (limits ->> name)::bigint as most, (total ->> name)::bigint as used, amount::bigint as added
    from jsonb_each_text(more) as counted (name, amount)
  loop
    if quota.added > 0 and quota.used > quota.most then
      raise exception 'quota exceeded' using errcode = 'KQ403', detail = json_build_object(
        'quota', quota.name, 'limit', quota.most, 'used', quota.used - quota.added, 'added', quota.added)::text;
    end if;
  end loop;
end $$;
revoke execute on function count_use from public;

create function count_row() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, case tg_op when 'INSERT' then use_of(new) else minus(use_of(new), use_of(old)) end);
  return null;
end $$;

-- The keys of a deleted workspace leave Redis page by page (remove-deleted.ts), and count until then.
create function count_removed_keys() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform from team_usage where team_id = new.team_id for update;
  perform count_use(new.team_id, minus('{}', sum(use_of(k))))
    from api_keys k where k.workspace_id = new.id and k.id > old.keys_removed_to and k.id <= new.keys_removed_to;
  return null;
end $$;

create function count_changed_key() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  -- Of this and the page's removal, the second to come sees the first.
  perform from team_usage where team_id = new.team_id for update;
  -- Its workspace was deleted and its page given back: the row counts no more (a secret's time of grace has ended).
  if not exists (select from workspaces w where w.id = new.workspace_id and w.deleted_at is not null and new.id <= w.keys_removed_to) then
    perform count_use(new.team_id, minus(use_of(new), use_of(old)));
  end if;
  return null;
end $$;

-- What one statement makes is counted together: an import makes 100 keys. What running transactions have made and not counted yet: a
-- row lives until the commit, which counts it and removes it, so nobody ever sees one.
create table uncounted_keys (
  id      bigint generated always as identity primary key,
  of_team text not null,
  more    jsonb not null
);

create function note_new_keys() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into uncounted_keys (of_team, more)
    select team_id, sum(use_of((made)::api_keys)) from made group by team_id order by team_id;
  return null;
end $$;

create function count_new_keys() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  delete from uncounted_keys where id = new.id;
  perform count_use(new.of_team, new.more);
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

-- A job removes thousands of rows of many teams in one statement, and locks their counters in the order of their ids.
create function count_removed() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  execute format('select count_use(team_id, minus(''{}'', more))
    from (select team_id, sum(use_of((gone)::%I)) as more from gone group by team_id order by team_id) as of_team', tg_table_name);
  return null;
end $$;

-- Deferred to the commit: a team's counters are locked for no longer than the commit takes. After them a transaction takes no
-- lock but the counters of other teams, so one that changes rows of several teams locks their counters in the order of their
-- ids, or has one team at a time. Constraint triggers are the ones that can be deferred.
do $$
declare counted regclass;
begin
  foreach counted in array array['workspaces', 'scopes', 'access_tokens', 'billing_records', 'grants', 'grant_schedules',
                                 'credit_ledger', 'adjustments', 'link_tokens']::regclass[] loop
    execute format('create constraint trigger count_new after insert on %s deferrable initially deferred
                      for each row when (plus(use_of(new), ''{}'') <> ''{}'') execute function count_row()', counted);
  end loop;
  foreach counted in array array['workspaces', 'scopes', 'access_tokens', 'billing_records', 'idempotency_keys']::regclass[] loop
    execute format('create constraint trigger count_changed after update on %s deferrable initially deferred
                      for each row when (use_of(new) <> use_of(old)) execute function count_row()', counted);
  end loop;
end $$;
create constraint trigger count_removed_keys after update on workspaces deferrable initially deferred
  for each row when (new.keys_removed_to > old.keys_removed_to) execute function count_removed_keys();
create trigger note_new after insert on api_keys referencing new table as made
  for each statement execute function note_new_keys();
create constraint trigger count_new after insert on uncounted_keys deferrable initially deferred
  for each row execute function count_new_keys();
create constraint trigger count_changed after update on api_keys deferrable initially deferred
  for each row when (use_of(new) <> use_of(old)) execute function count_changed_key();
create trigger count_in_grace after update on key_texts
  for each row when ((old.valid_until is null) <> (new.valid_until is null)) execute function count_secret_in_grace();
create trigger count_ended after delete on key_texts
  for each row when (old.valid_until is not null) execute function count_secret_in_grace();
create trigger count_removed after delete on link_tokens referencing old table as gone
  for each statement execute function count_removed();
create trigger count_removed after delete on idempotency_keys referencing old table as gone
  for each statement execute function count_removed();

-- Removes secrets that ended more than a day ago, oldest first, and gives how many. It leaves those that a change can still
-- name, for a shard that comes back older; and the hash of an imported secret stays: importing the same file again must not bring back
-- what was replaced. As a function, so that the consumer can touch no secret that works. It locks the keys first, in order, as a
-- rotation does before it touches secrets, and at the end the counters of the teams, in order: two of these at once, or one beside a
-- rotation, never wait for each other.
create function remove_ended_secrets(at_most int) returns int
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  hashes text[];
  teams text[];
begin
  select array_agg(hash), array_agg(distinct team_id) into hashes, teams from (
    select hash, team_id from key_texts
    where replaced_at < now() - interval '1 day' and not imported
      and replaced_at < coalesce((select created_at from changes where kind = 'key' order by id limit 1), now()) - interval '1 hour'
      and coalesce(valid_until, 0) < extract(epoch from now() - interval '1 day') * 1000
    order by replaced_at limit at_most) as ended;
  perform from api_keys where id in (select key_id from key_texts where hash = any(hashes)) order by id for no key update;
  delete from key_texts where hash = any(hashes);
  get diagnostics at_most = row_count;
  perform from team_usage where team_id = any(teams) order by team_id for update;
  return at_most;
end $$;

-- Removes signing keys that no JWT in force can need for 30 days, oldest first, and gives how many. As a function, so that
-- the consumer can read and touch no other key.
create function remove_ended_signing_keys(at_most int) returns int
  language sql security definer set search_path = public, pg_temp
begin atomic
  with removed as (
    delete from signing_keys where kid in (
      select kid from signing_keys where published_until < now() - interval '30 days'
      order by published_until limit at_most)
    returning kid)
  select count(*)::int from removed;
end;
