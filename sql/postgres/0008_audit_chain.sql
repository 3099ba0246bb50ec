-- The audit log says where a change came from, has lines of refused attempts, and is chained.

-- `attempts` counts refused attempts alike, and `error_code` is the answer that they got. A line of a refusal names no
-- resource: none was touched. The address and the user agent are null for an operator's command.
alter table audit_log
  alter column resource drop not null,
  alter column resource_id drop not null,
  add column outcome text not null default 'changed',
  add column error_code int,
  add column attempts int,
  add column address text,
  add column user_agent text,
  -- Not valid: the lines of earlier versions are so by their defaults, and need not be read.
  add constraint audit_log_whole check (
    case outcome when 'changed' then resource is not null and resource_id is not null and error_code is null and attempts is null
                 when 'denied' then resource is null and resource_id is null and error_code is not null and attempts > 0
                 else false end
    and length(address) <= 64 and length(user_agent) <= 256) not valid;
-- Each filter of the log is a range of an index: a page reads what it gives, not the log of the team.
create index on audit_log (team_id, request_id, id);
create index on audit_log (team_id, token_id, id);
create index on audit_log (team_id, resource, id);
create index on audit_log (team_id, address, id) where address is not null;
create index audit_log_denied on audit_log (team_id, id) where outcome = 'denied';

-- Lines that are not in the chain yet. A line's transaction writes it here, so a line that is committed is either here or
-- in the chain.
create table audit_unchained (
  line_id  text primary key,
  noted_at timestamptz not null default now()
);

-- The chain over the lines of all teams, in the order in which they were chained, numbered without gaps. `mac` is an
-- HMAC-SHA256 over the number, the mac before it and all fields of the line (apps/api/audit/line-mac.ts). It is apart from
-- the lines, so that neither is ever updated.
create table audit_chain (
  number  bigint primary key check (number > 0),
  line_id text not null unique,
  mac     bytea not null check (length(mac) = 32)
);
create trigger audit_chain_append_only before update or delete or truncate on audit_chain
  for each statement execute function refuse_change();

-- One row. Its lock is what a process holds while it chains. `key_sealed` is the key of the chain, encrypted under a key
-- derived from the master key that `sealed_under` names. Lines from before this migration are chained in the order of
-- their ids: those after `existing_after` up to `existing_until` are still to be looked at.
create table audit_chain_state (
  one            boolean primary key default true check (one),
  key_sealed     bytea,
  sealed_under   text,
  existing_after text not null default '',
  existing_until text not null
);

-- The time in an id, as its first ten characters after the prefix.
create function id_time(at timestamptz) returns text language sql stable
  return (select string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz',
                                   (((extract(epoch from at) * 1000)::bigint >> (5 * place)) & 31)::int + 1, 1),
                            '' order by place desc)
          from generate_series(0, 9) as place);

-- The time of a line is Postgres's, in its id too, whatever the writer says. Not that of its transaction, which may be long.
create function stamp_audit_line() returns trigger language plpgsql as $$
declare at timestamptz := clock_timestamp();
begin
  if new.id !~ '^audit_[0-7][0-9a-hjkmnp-tv-z]{25}$' then
    raise check_violation using message = 'the id of an audit line has another form';
  end if;
  new.created_at := at;
  new.id := 'audit_' || id_time(at) || right(new.id, 16);
  return new;
end $$;
create trigger audit_log_stamp before insert on audit_log for each row execute function stamp_audit_line();

-- As the owner: who adds a line need not have rights here.
create function note_unchained_line() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into audit_unchained (line_id) values (new.id);
  return null;
end $$;
create trigger audit_log_unchained after insert on audit_log for each row execute function note_unchained_line();

-- The triggers above wait until no transaction without them writes lines, so no line is later than this one and unnoted.
insert into audit_chain_state (existing_until) select coalesce(max(id), '') from audit_log;

-- The api adds lines for the team of its transaction alone; work for all teams adds those of the operator, who has no token.
create policy own_team_adds on audit_log as restrictive for insert to keytally_api
  with check (current_setting('keytally.team', true) = team_id
              or (current_setting('keytally.team', true) = '*' and token_id is null));

grant select, delete on audit_unchained to keytally_api;
grant select, insert on audit_chain to keytally_api;
grant select, update (key_sealed, sealed_under, existing_after) on audit_chain_state to keytally_api;

-- No request of a team needs them.
do $$
declare of_chain regclass;
begin
  foreach of_chain in array array['audit_unchained', 'audit_chain', 'audit_chain_state']::regclass[] loop
    execute format('alter table %s enable row level security', of_chain);
    execute format($policy$create policy every_team on %s to keytally_api using (current_setting('keytally.team', true) = '*')$policy$, of_chain);
  end loop;
end $$;
