-- What one statement makes is counted and noted together: an import makes 100 keys, and 100 lines of the audit log.

-- What running transactions have made and not counted yet. A row lives until the commit, which counts it and removes it, so
-- nobody ever sees one.
create table uncounted_keys (
  id           bigint generated always as identity primary key,
  of_team      text not null,
  keys         bigint not null,
  stored_bytes bigint not null
);
alter table uncounted_keys enable row level security;

create function note_new_keys() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into uncounted_keys (of_team, keys, stored_bytes)
    select team_id, count(*) filter (where deleted_at is null), sum(counted_bytes((made)::api_keys))
    from made group by team_id order by team_id;
  return null;
end $$;

create function count_new_keys() returns trigger
  language plpgsql security definer set search_path = public, pg_temp as $$
begin
  delete from uncounted_keys where id = new.id;
  perform count_use(new.of_team, (null, 0, new.keys, 0, 0, 0, new.stored_bytes)::team_usage);
  return null;
end $$;

drop trigger count_new on api_keys;
create trigger note_new after insert on api_keys referencing new table as made
  for each statement execute function note_new_keys();
-- Deferred to the commit, as in 0005.
create constraint trigger count_new after insert on uncounted_keys deferrable initially deferred
  for each row execute function count_new_keys();

create function note_unchained_lines() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into audit_unchained (line_id) select id from made;
  return null;
end $$;
drop trigger audit_log_unchained on audit_log;
create trigger audit_log_unchained after insert on audit_log referencing new table as made
  for each statement execute function note_unchained_lines();
drop function note_unchained_line();
