-- What people and programs of a team come in with beside tokens and keys, and answers that are kept for them.

-- A link token opens the portal: the record that it shows, what else it permits, and the access token that made it.
create table link_tokens (
  id                  text primary key,
  team_id             text not null,
  workspace_id        text not null,
  customer_id         text not null,
  external_billing_id text,
  billing_id          text,
  permissions         text[] not null default '{}',
  hash                text not null unique,
  expires_at          bigint not null,
  revoked_at          timestamptz,
  created_by          text not null,
  created_at          timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  foreign key (team_id, created_by) references access_tokens (team_id, id),
  unique (team_id, id)
);
create index on link_tokens (expires_at);
create index link_tokens_of_team on link_tokens (team_id, id) where revoked_at is null;

-- Whether a link token opens the portal: nobody has revoked it, the token that made it is in force, and its workspace is there.
create function is_in_force(link link_tokens) returns boolean language sql stable as $$
  select link.revoked_at is null and link.expires_at > extract(epoch from now()) * 1000
    and exists (select from workspaces w where w.id = link.workspace_id and w.deleted_at is null)
    and exists (select from access_tokens t where t.id = link.created_by and is_in_force(t))
$$;

-- A session is of the console or of the portal: it stands for an access token or for a link token. The cookie's secret stands
-- nowhere, only its hash.
create table sessions (
  id            text primary key,
  team_id       text not null references teams,
  token_id      text,
  link_token_id text,
  hash          text not null unique,
  created_at    timestamptz not null default now(),
  expires_at    timestamptz not null,
  foreign key (team_id, token_id) references access_tokens (team_id, id),
  foreign key (team_id, link_token_id) references link_tokens (team_id, id) on delete cascade,
  constraint sessions_of_one check (num_nonnulls(token_id, link_token_id) = 1)
);
create index on sessions (token_id, id);
create index on sessions (link_token_id, id) where link_token_id is not null;
create index on sessions (expires_at);

-- The private key is encrypted with AES-256-GCM, bound to kid and team, under a key derived from the master key that
-- `sealed_under` names. A retired key has no private key. `longest_seconds` is the longest lifetime of a JWT that the key
-- has signed.
-- A team has its current key (`retired_at` null), its next one (infinity: published already, signs after the next
-- rotation) and earlier ones. `revoked_at` is when an earlier key was ended before its JWTs had expired. A key is in key sets
-- until `published_until`.
create table signing_keys (
  kid               text primary key,
  team_id           text not null references teams,
  public_jwk        json not null,
  private_encrypted bytea,
  sealed_under      text,
  longest_seconds   int not null default 0,
  retired_at        timestamptz,
  revoked_at        timestamptz,
  published_until   timestamptz not null default 'infinity',
  created_at        timestamptz not null default now()
);
create unique index signing_keys_current on signing_keys (team_id) where retired_at is null;
create unique index signing_keys_next on signing_keys (team_id) where retired_at = 'infinity';
create index signing_keys_of_team on signing_keys (team_id, published_until);
create index signing_keys_published on signing_keys (published_until desc, team_id, kid);
create index signing_keys_ended on signing_keys (published_until) where published_until < 'infinity';

-- A request that began before its key was retired may sign a JWT a moment after: hence 300 s more.
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

-- The first answer to a request with an Idempotency-Key, encrypted under a key that only the caller can complete.
create table idempotency_keys (
  token_id     text not null,
  team_id      text not null,
  key_hash     text not null,
  request_hash text not null,
  status       smallint,
  answer       bytea,
  change_ids   bigint[],
  created_at   timestamptz not null default now(),
  primary key (token_id, key_hash),
  foreign key (team_id, token_id) references access_tokens (team_id, id)
);
create index on idempotency_keys (created_at);
