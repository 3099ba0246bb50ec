-- A scope's representation stays while a key that is not deleted has it. Grants of deleted keys stay as rows too, so the
-- question is an index of its own: one look into it, however many keys were deleted.
alter table key_grants add column of_deleted_key boolean not null default false;
update key_grants set of_deleted_key = true
from api_keys k where k.id = key_id and k.deleted_at is not null;
create index key_grants_of_scope on key_grants (scope_id) where not of_deleted_key;

-- A trigger, because a program of the version before deletes keys too while programs are replaced.
create function mark_grants_of_deleted_key() returns trigger language plpgsql as $$
begin
  update key_grants set of_deleted_key = true where key_id = new.id;
  return null;
end $$;
create trigger api_keys_deleted after update of deleted_at on api_keys for each row
  when (old.deleted_at is null and new.deleted_at is not null) execute function mark_grants_of_deleted_key();

-- What a team chose for its JWTs: whether its public keys are in the key set of all teams, and what `iss` is.
alter table teams
  add column shares_signing_keys boolean not null default true,
  add column jwt_issuer text not null default 'TEAM_ID' check (jwt_issuer in ('TEAM_ID', 'URL'));
grant update (shares_signing_keys, jwt_issuer) on teams to keytally_api;

-- A team has its current key (`retired_at` null), its next one (infinity: published already, signs after the next
-- rotation) and earlier ones. `revoked_at` is when an earlier key was ended before its JWTs had expired. A key is in key sets
-- until `published_until`. `shared` is the team's shares_signing_keys.
alter table signing_keys
  add column revoked_at timestamptz,
  add column published_until timestamptz not null default 'infinity',
  add column shared boolean not null default true;
create unique index signing_keys_next on signing_keys (team_id) where retired_at = 'infinity';
create index signing_keys_of_team on signing_keys (team_id, published_until);
create index signing_keys_shared on signing_keys (published_until desc, team_id, kid) where shared;
create index signing_keys_ended on signing_keys (published_until) where published_until < 'infinity';

-- A request that began before its key was retired may sign a JWT a moment after: hence 300 s more. A trigger, because a
-- program of the version before retires keys too while programs are replaced.
create function set_published_until() returns trigger language plpgsql as $$
begin
  new.published_until := case
    when new.revoked_at is not null then new.revoked_at
    when new.retired_at is null then 'infinity'
    else new.retired_at + make_interval(secs => new.longest_seconds + 300)
  end;
  return new;
end $$;
create trigger signing_keys_published before insert or update on signing_keys
  for each row execute function set_published_until();
update signing_keys set retired_at = retired_at where retired_at is not null;
grant delete on signing_keys to keytally_api;

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
revoke execute on function remove_ended_signing_keys from public;
grant execute on function remove_ended_signing_keys to keytally_consumer;

-- JWTs that were revoked, each until no JWT of this jti can be in force.
create table revoked_jwts (
  team_id    text not null references teams,
  jti        uuid not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  primary key (team_id, jti)
);
create index on revoked_jwts (team_id, expires_at);
create index on revoked_jwts (expires_at);
grant select, insert, update, delete on revoked_jwts to keytally_api;
grant select, delete on revoked_jwts to keytally_consumer;
alter table revoked_jwts enable row level security;
create policy team on revoked_jwts to keytally_api using (is_of_team(team_id));
create policy jobs on revoked_jwts to keytally_consumer using (true);
