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

-- The chain over the lines of all teams, in the order in which they were chained, numbered without gaps. It is apart from the lines,
-- so that neither is ever updated.
create table audit_chain (
  number  bigint primary key check (number > 0),
  line_id text not null unique,
  hash    bytea not null check (length(hash) = 32)
);
create trigger audit_chain_append_only before update or delete or truncate on audit_chain
  for each statement execute function refuse_change();

-- A place of the chain: a hash over the place before it, its number and all fields of its line. A test tries each column: a new one
-- must be proved too.
create function audit_hash(before bytea, number bigint, l audit_log) returns bytea language sql stable
  return sha256(coalesce(before, '') || convert_to(array[
    number::text, l.id, l.team_id, l.token_id, l.operation, l.outcome, l.resource, l.resource_id, l.before::text, l.after::text,
    l.error_code::text, l.attempts::text, l.request_id, l.address, l.user_agent,
    (extract(epoch from l.created_at) * 1000000)::bigint::text]::text, 'UTF8'));

-- Chains some of the lines that wait, and gives how many. While another process chains, it does nothing. In these queries `offset 0`
-- keeps Postgres from joining whole tables. A line that vanished before it was chained stays noted: it makes the age of what waits
-- rise, and the proof fail.
create function chain_audit_log(at_most int) returns int
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  place audit_chain;
  line audit_log;
  chained int := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('the chain of the audit log', 0)) then return 0; end if;
  select * into place from audit_chain order by number desc limit 1;
  for line in
    select l.* from (select line_id from audit_unchained order by line_id limit at_most) u
    cross join lateral (select * from audit_log where id = u.line_id offset 0) l order by l.id
  loop
    place.hash := audit_hash(place.hash, coalesce(place.number, 0) + 1, line);
    place.number := coalesce(place.number, 0) + 1;
    insert into audit_chain values (place.number, line.id, place.hash);
    delete from audit_unchained where line_id = line.id;
    chained := chained + 1;
  end loop;
  return chained;
end $$;
revoke execute on function chain_audit_log from public;

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
