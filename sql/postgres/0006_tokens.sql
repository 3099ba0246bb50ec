-- Access tokens know which token made them, and revocations reach all that a token made.

-- `created_by` is null for an operator's token. A token that was revoked with its descendants takes every token below it
-- along; `revocation_id` is set while the tokens that it made are still to be revoked.
alter table access_tokens
  add column created_by text,
  add column revoked_with_descendants boolean not null default false,
  add column revocation_id bigint,
  add column allowed_ips text[],
  add foreign key (team_id, created_by) references access_tokens (team_id, id);
create or replace function counted_bytes(t access_tokens) returns bigint language sql immutable
  return case when t.revoked_at is not null then 0
    else 512 + octet_length(t.name) + 32 * (coalesce(cardinality(t.workspace_ids), 0) + coalesce(cardinality(t.allowed_ips), 0)) end;
create index access_tokens_made_by on access_tokens (created_by) where not revoked_with_descendants;
create index access_tokens_to_expand on access_tokens (revocation_id) where revocation_id is not null;
create index link_tokens_of_team on link_tokens (team_id, id) where revoked_at is null;

-- Tokens that were made until then are revoked, whatever their own rows say.
alter table teams add column tokens_revoked_at timestamptz;

-- Revocations that are too large for one transaction: work that outlives the process that began it. A null token_id means
-- all that a team has; `step` and `done_to` say how far that came. The row goes when the work is done.
create table revocations (
  id           bigint generated always as identity primary key,
  team_id      text not null references teams,
  token_id     text,
  revoked_by   text,
  operation    text not null,
  request_id   text,
  step         text not null default 'tokens' check (step in ('tokens', 'link_tokens', 'keys')),
  done_to      text not null default '',
  requested_at timestamptz not null default clock_timestamp(),
  worked_at    timestamptz not null default clock_timestamp(),
  foreign key (team_id, token_id) references access_tokens (team_id, id),
  foreign key (team_id, revoked_by) references access_tokens (team_id, id)
);
create unique index revocations_of_token on revocations (team_id, token_id) nulls not distinct;
create index on revocations (worked_at);

-- Whether a token above this one was revoked with its descendants. It walks up the whole line of a token, so it is asked
-- only while a revocation of its team is under way.
create function is_below_revoked(token text) returns boolean language sql stable as $$
  with recursive makers (id) as (
    select created_by from access_tokens where id = token
    union
    select t.created_by from makers m join access_tokens t on t.id = m.id where t.created_by is not null)
  select exists (select from makers m join access_tokens t on t.id = m.id where t.revoked_with_descendants)
$$;

-- Whether a token is revoked: by its own row, with its team, or with a token above it whose descendants are being revoked.
create function is_revoked(token access_tokens) returns boolean language sql stable as $$
  select token.revoked_at is not null
    or exists (select from teams t where t.id = token.team_id and t.tokens_revoked_at >= token.created_at)
    or (exists (select from revocations r where r.team_id = token.team_id and r.token_id is not null)
        and is_below_revoked(token.id))
$$;

-- Who made the tokens that are there already stands in the audit log.
update access_tokens t set created_by = a.token_id
from audit_log a
where a.team_id = t.team_id and a.resource = 'access_token' and a.resource_id = t.id and a.before is null
  and a.token_id is not null;

grant select, insert, update, delete on revocations to keytally_api;
grant update (tokens_revoked_at) on teams to keytally_api;
alter table revocations enable row level security;
create policy team on revocations to keytally_api using (is_of_team(team_id));
