-- The audit log: who changed what, written in the transaction of the change, and chained.

-- Before and after never contain the secret of a key or token. token_id and request_id are null for a change that an operator made by
-- a command, as the address and the user agent are. `attempts` counts refused attempts alike, and `error_code` is the answer that they
-- got. A line of a refusal names no resource: none was touched.
create table audit_log (
  id          text primary key,
  team_id     text not null references teams,
  token_id    text,
  operation   text not null,
  outcome     text not null default 'changed',
  resource    text,
  resource_id text,
  before      json,
  after       json,
  error_code  int,
  attempts    int,
  request_id  text,
  address     text,
  user_agent  text,
  created_at  timestamptz not null default now(),
  foreign key (team_id, token_id) references access_tokens (team_id, id),
  constraint audit_log_whole check (
    case outcome when 'changed' then resource is not null and resource_id is not null and error_code is null and attempts is null
                 when 'denied' then resource is null and resource_id is null and error_code is not null and attempts > 0
                 else false end
    and length(address) <= 64 and length(user_agent) <= 256)
);
-- Each filter of the log is a range of an index: a page reads what it gives, not the log of the team.
create index on audit_log (team_id, id);
create index on audit_log (team_id, resource_id, id);
create index on audit_log (team_id, request_id, id);
create index on audit_log (team_id, token_id, id);
create index on audit_log (team_id, resource, id);
create index on audit_log (team_id, address, id) where address is not null;
create index audit_log_denied on audit_log (team_id, id) where outcome = 'denied';
create trigger audit_log_append_only before update or delete or truncate on audit_log
  for each statement execute function refuse_change();

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
-- derived from the master key that `sealed_under` names.
create table audit_chain_state (
  one          boolean primary key default true check (one),
  key_sealed   bytea,
  sealed_under text
);
insert into audit_chain_state default values;

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
create function note_unchained_lines() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into audit_unchained (line_id) select id from made;
  return null;
end $$;
create trigger audit_log_unchained after insert on audit_log referencing new table as made
  for each statement execute function note_unchained_lines();
