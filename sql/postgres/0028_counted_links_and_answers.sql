-- Link tokens and kept answers count too: nothing else bounds how many rows a team leaves here. Both stay for a time that their
-- team can't shorten: a link token until 30 days after its end, an answer under an Idempotency-Key for 24 hours.

-- Before the counters, as a request locks them: it adds its rows first, and counts them at its commit.
lock table link_tokens, idempotency_keys in share row exclusive mode;
lock table team_usage in access exclusive mode;
alter table team_usage
  add column link_tokens bigint not null default 0,
  add column kept_answer_bytes bigint not null default 0;

-- The answer itself, and its row with the entries of two indexes.
create function counted_bytes(i idempotency_keys) returns bigint language sql immutable
  return case when i.answer is null then 0 else 512 + octet_length(i.answer) end;

-- What a change adds to a team's counters, by their names.
create function use_of(
  workspaces bigint default 0, keys bigint default 0, scopes bigint default 0, access_tokens bigint default 0,
  billing_records bigint default 0, stored_bytes bigint default 0, link_tokens bigint default 0, kept_answer_bytes bigint default 0
) returns team_usage language sql immutable as $$
  select (null, use_of.workspaces, use_of.keys, use_of.scopes, use_of.access_tokens, use_of.billing_records, use_of.stored_bytes,
          use_of.link_tokens, use_of.kept_answer_bytes)::team_usage;
$$;

-- As in 0005, with the new counters.
create or replace function count_use(team text, more team_usage) returns void
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  used jsonb;
  limits jsonb := nullif(current_setting('keytally.quotas', true), '')::jsonb;
  quota record;
begin
  more.team_id := team;
  insert into team_usage as known values (more.*)
  on conflict (team_id) do update set
    workspaces = known.workspaces + excluded.workspaces,
    keys = known.keys + excluded.keys,
    scopes = known.scopes + excluded.scopes,
    access_tokens = known.access_tokens + excluded.access_tokens,
    billing_records = known.billing_records + excluded.billing_records,
    stored_bytes = known.stored_bytes + excluded.stored_bytes,
    link_tokens = known.link_tokens + excluded.link_tokens,
    kept_answer_bytes = known.kept_answer_bytes + excluded.kept_answer_bytes
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

-- As in 0005, 0011, 0014 and 0024, with the counters by their names.
create or replace function count_workspace() returns trigger
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
  more := use_of(workspaces => (new.deleted_at is null)::int - was_live, stored_bytes => counted_bytes(new) - had_bytes);
  -- The keys of a deleted workspace leave Redis page by page (remove-deleted.ts), and count until then.
  if tg_op = 'UPDATE' and new.keys_removed_to > old.keys_removed_to then
    perform from team_usage where team_id = new.team_id for update;
    select - count(*) filter (where k.deleted_at is null), more.stored_bytes - coalesce(sum(counted_bytes(k)), 0)
      into more.keys, more.stored_bytes
      from api_keys k where k.workspace_id = new.id and k.id > old.keys_removed_to and k.id <= new.keys_removed_to;
  end if;
  perform count_use(new.team_id, more);
  return null;
end $$;

create or replace function count_scope() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  was_live int := 0;
  had_bytes bigint := 0;
begin
  if tg_op = 'UPDATE' then
    was_live := (old.deleted_at is null and old.removed_at is null)::int;
    had_bytes := counted_bytes(old);
  end if;
  perform count_use(new.team_id, use_of(scopes => (new.deleted_at is null and new.removed_at is null)::int - was_live,
                                        stored_bytes => counted_bytes(new) - had_bytes));
  return null;
end $$;

create or replace function count_key() returns trigger
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
  perform count_use(new.team_id, use_of(keys => (new.deleted_at is null)::int - was_live,
                                        stored_bytes => counted_bytes(new) - had_bytes));
  return null;
end $$;

create or replace function count_new_keys() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  delete from uncounted_keys where id = new.id;
  perform count_use(new.of_team, use_of(keys => new.keys, stored_bytes => new.stored_bytes));
  return null;
end $$;

create or replace function count_token() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  was_live int := 0;
  had_bytes bigint := 0;
begin
  if tg_op = 'UPDATE' then
    was_live := (old.revoked_at is null)::int;
    had_bytes := counted_bytes(old);
  end if;
  perform count_use(new.team_id, use_of(access_tokens => (new.revoked_at is null)::int - was_live,
                                        stored_bytes => counted_bytes(new) - had_bytes));
  return null;
end $$;

create or replace function count_billing() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, use_of(billing_records => 1, stored_bytes => counted_bytes(new)));
  return null;
end $$;

create or replace function count_changed_billing() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, use_of(stored_bytes => counted_bytes(new) - counted_bytes(old)));
  return null;
end $$;

create or replace function count_row() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, use_of(stored_bytes => counted_bytes(new)));
  return null;
end $$;

create function count_link_token() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, use_of(link_tokens => 1));
  return null;
end $$;

create function count_kept_answer() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(new.team_id, use_of(kept_answer_bytes => counted_bytes(new) - counted_bytes(old)));
  return null;
end $$;

-- A job removes thousands of rows of many teams in one statement, and locks their counters in the order of their ids.
create function give_back_link_tokens() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(team_id, use_of(link_tokens => - number))
  from (select team_id, count(*) as number from gone group by team_id order by team_id) as of_team;
  return null;
end $$;

create function give_back_kept_answers() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform count_use(team_id, use_of(kept_answer_bytes => - bytes))
  from (select team_id, sum(counted_bytes((gone)::idempotency_keys))::bigint as bytes from gone group by team_id order by team_id) as of_team;
  return null;
end $$;

-- Deferred to the commit, as in 0005. A request claims its Idempotency-Key first, and keeps the answer at its end.
create constraint trigger count_new after insert on link_tokens deferrable initially deferred
  for each row execute function count_link_token();
create constraint trigger count_kept after update on idempotency_keys deferrable initially deferred
  for each row when (counted_bytes(old) <> counted_bytes(new)) execute function count_kept_answer();
create trigger count_removed after delete on link_tokens referencing old table as gone
  for each statement execute function give_back_link_tokens();
create trigger count_removed after delete on idempotency_keys referencing old table as gone
  for each statement execute function give_back_kept_answers();

create or replace view counted_team_usage with (security_invoker) as
  select t.id as team_id, coalesce(w.live, 0) as workspaces, coalesce(k.live, 0) as keys, coalesce(s.live, 0) as scopes,
         coalesce(a.live, 0) as access_tokens, coalesce(b.live, 0) as billing_records,
         (coalesce(w.bytes, 0) + coalesce(k.bytes, 0) + coalesce(s.bytes, 0) + coalesce(a.bytes, 0) + coalesce(b.bytes, 0)
          + coalesce(g.bytes, 0) + coalesce(h.bytes, 0) + coalesce(l.bytes, 0) + coalesce(d.bytes, 0))::bigint as stored_bytes,
         coalesce(p.number, 0) as link_tokens, coalesce(i.bytes, 0)::bigint as kept_answer_bytes
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
  left join (select team_id, sum(counted_bytes(r)) as bytes from adjustments r group by team_id) d on d.team_id = t.id
  left join (select team_id, count(*) as number from link_tokens group by team_id) p on p.team_id = t.id
  left join (select team_id, sum(counted_bytes(r)) as bytes from idempotency_keys r group by team_id) i on i.team_id = t.id;

insert into team_usage as known (team_id, link_tokens, kept_answer_bytes)
  select team_id, sum(links), sum(bytes)::bigint
  from (select team_id, count(*) as links, 0 as bytes from link_tokens group by team_id
        union all
        select team_id, 0, sum(counted_bytes(r)) from idempotency_keys r group by team_id) as counted
  group by team_id
  on conflict (team_id) do update set link_tokens = excluded.link_tokens, kept_answer_bytes = excluded.kept_answer_bytes;
