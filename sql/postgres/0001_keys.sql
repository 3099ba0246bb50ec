-- Teams, their tokens and workspaces, and keys; Postgres has the truth of them. Amounts are whole micro-credits. Times that clients
-- send or get as integers are Unix milliseconds. A foreign key between two rows of a team includes the team, so no row can refer to
-- another team's.

-- Tokens that were made until tokens_revoked_at are revoked, whatever their own rows say. What a team chose for its JWTs: whether its
-- public keys are in the key set of all teams, and what `iss` is.
create table teams (
  id                  text primary key,
  name                text not null unique,
  tokens_revoked_at   timestamptz,
  shares_signing_keys boolean not null default true,
  jwt_issuer          text not null default 'TEAM_ID' check (jwt_issuer in ('TEAM_ID', 'URL')),
  created_at          timestamptz not null default now()
);

-- `created_by` is null for an operator's token. Below a token that was revoked with its descendants, none is in force.
create table access_tokens (
  id                       text primary key,
  team_id                  text not null references teams,
  name                     text not null,
  hash                     text not null unique,
  masked_token             text not null,
  shard                    smallint not null,
  permissions              text[] not null,
  workspace_ids            text[],
  allowed_ips              text[],
  expires_at               bigint,
  revoked_at               timestamptz,
  revoked_with_descendants boolean not null default false,
  created_by               text,
  version                  bigint not null default 1,
  created_at               timestamptz not null default now(),
  updated_at               timestamptz not null default now(),
  foreign key (team_id, created_by) references access_tokens (team_id, id),
  unique (team_id, id)
);
create index on access_tokens (shard);
create index access_tokens_live on access_tokens (shard, id) where revoked_at is null;
create index access_tokens_made_by on access_tokens (created_by) where not revoked_with_descendants;

-- Separate from access_tokens for the reason that key_last_used is separate from api_keys.
create table token_last_used (
  token_id     text primary key,
  team_id      text not null,
  last_used_at bigint not null,
  foreign key (team_id, token_id) references access_tokens (team_id, id)
) with (fillfactor = 70);

-- Whether a token is revoked: by its own row, or with its team.
create function is_revoked(token access_tokens) returns boolean language sql stable as $$
  select token.revoked_at is not null
    or exists (select from teams t where t.id = token.team_id and t.tokens_revoked_at >= token.created_at)
$$;

-- Whether a token may be used.
create function is_in_force(token access_tokens) returns boolean language sql stable as $$
  select not is_revoked(token) and (token.expires_at is null or token.expires_at > extract(epoch from now()) * 1000)
$$;

-- A deleted workspace's row stays, because its billing records and their books do. Its keys leave Redis in the order of their ids:
-- `keys_removed_to` is the last one whose removal stands in `changes`, and `keys_removed_at` is when the last of all did.
-- `removed_at` is when the removal of the workspace's own copies was written there. `timezone`: in whose days and months statements
-- are made. `month_due_at`: when its next month closes by itself, in Unix ms; null: nobody has looked yet. `keep_client_addresses`:
-- whether the books keep the addresses of end clients beside the refusals of the last day.
create table workspaces (
  id                            text primary key,
  team_id                       text not null references teams,
  name                          text not null,
  default_key_prefix            text,
  default_allowed_ips           text[] not null default '{}',
  default_rate_limit_per_second int,
  default_expiration            bigint,
  default_limits                json,
  default_alerts                json,
  timezone                      text not null default 'UTC',
  keep_client_addresses         boolean not null default true,
  last_scope_ref                int not null default 0,
  month_due_at                  bigint,
  deleted_at                    timestamptz,
  keys_removed_to               text not null default '',
  keys_removed_at               timestamptz,
  removed_at                    timestamptz,
  version                       bigint not null default 1,
  created_at                    timestamptz not null default now(),
  updated_at                    timestamptz not null default now(),
  unique (team_id, id)
);
create index workspaces_to_remove on workspaces (deleted_at) where deleted_at is not null and removed_at is null;
create index workspaces_live on workspaces (id) where deleted_at is null;
create index workspaces_month_due on workspaces (month_due_at nulls first, id);

-- Limits a token to workspaces of its own team. A foreign key can't: it does not look into an array.
create function refuse_foreign_workspaces() returns trigger language plpgsql as $$
begin
  if exists (select from unnest(new.workspace_ids) as named (id)
             where not exists (select from workspaces w where w.team_id = new.team_id and w.id = named.id)) then
    raise foreign_key_violation using message = 'an access token is limited to a workspace that is not of its team';
  end if;
  return new;
end $$;
create trigger access_tokens_own_workspaces before insert or update of team_id, workspace_ids on access_tokens
  for each row execute function refuse_foreign_workspaces();

-- A scope's ref is its number within the workspace. It is never used again, because copies of keys in Redis refer to it.
create table scopes (
  id             text primary key,
  team_id        text not null,
  workspace_id   text not null,
  ref            int not null,
  name           text not null,
  representation text not null,
  description    text,
  deleted_at     timestamptz,
  removed_at     timestamptz,
  version        bigint not null default 1,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  unique (workspace_id, ref),
  unique (team_id, id)
);
create unique index scopes_representation on scopes (workspace_id, representation) where deleted_at is null;
create index scopes_to_remove on scopes (deleted_at) where deleted_at is not null and removed_at is null;
create index scopes_live on scopes (id) where deleted_at is null;

-- `limits`: over windows, as the API takes and answers them; null: those of the workspace. `grants`, `secrets_in_grace`: how many scopes
-- the key is granted, and how many of its earlier secrets are in their time of grace; each takes memory in Redis (0007_quotas.sql).
create table api_keys (
  id                    text primary key,
  team_id               text not null,
  workspace_id          text not null,
  shard                 smallint not null,
  name                  text not null,
  prefix                text not null,
  masked_key            text not null,
  enabled               boolean not null,
  deleted_at            timestamptz,
  expires_at            bigint,
  customer_id           text,
  external_meter_id     text,
  metadata              json,
  rate_limit_per_second int,
  limits                json,
  allowed_ips           text[],
  grants                smallint not null default 0,
  secrets_in_grace      smallint not null default 0,
  version               bigint not null default 1,
  created_at            timestamptz not null default now(),
  updated_at            timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  unique (team_id, id)
);
create index on api_keys (workspace_id, id);
create index on api_keys (workspace_id, customer_id, id);
create index on api_keys (workspace_id, external_meter_id, id);
-- The meters of a customer, each found by one step.
create index api_keys_meters on api_keys (workspace_id, customer_id, external_meter_id)
  where customer_id is not null and external_meter_id is not null;
create index on api_keys (shard, id);
create index api_keys_by_end on api_keys (expires_at) where expires_at is not null and deleted_at is null;

-- Every secret that a key has had, as a hash. The current one has neither date. One that a rotation replaced works until
-- valid_until. A change of a key names the secrets that its transaction replaced: their `replaced_at` is its `created_at`, because
-- both are the time at which that transaction began.
-- The text of a key that was made elsewhere names no shard, so its hash does. A key that draws on a billing record lives in another
-- shard, with the record: then `pointer_shard` is the hash's shard, which points there. Two teams may have the same such text: its
-- hash is kept together with the team.
create table key_texts (
  hash          text primary key,
  team_id       text not null,
  key_id        text not null,
  valid_until   bigint,
  replaced_at   timestamptz,
  imported      boolean not null default false,
  pointer_shard smallint,
  created_at    timestamptz not null default now(),
  -- A key's secret is inserted before the key: its hash decides whether the key is made.
  foreign key (team_id, key_id) references api_keys (team_id, id) deferrable initially deferred
);
create index on key_texts (key_id);
create unique index key_texts_current on key_texts (key_id) where replaced_at is null;
create index key_texts_in_grace on key_texts (key_id, valid_until) where valid_until is not null;
create index key_texts_replaced on key_texts (replaced_at, key_id) where replaced_at is not null;
create index key_texts_imported on key_texts (team_id) where imported;
create index key_texts_pointers on key_texts (pointer_shard, key_id, hash) where pointer_shard is not null;
create index key_texts_ended on key_texts (replaced_at) where replaced_at is not null and not imported;

-- Flags: 1 create, 2 read, 4 update, 8 delete. Grants of a deleted scope have no effect, and leave with it. A scope's representation stays
-- while a key that is not deleted has it. Grants of deleted keys stay as rows, so the question is an index of its own: one look into
-- it, however many keys were deleted.
create table key_grants (
  team_id        text not null,
  key_id         text not null,
  scope_id       text not null,
  flags          smallint not null check (flags between 0 and 15),
  position       smallint not null,
  of_deleted_key boolean not null default false,
  primary key (key_id, scope_id),
  foreign key (team_id, key_id) references api_keys (team_id, id),
  foreign key (team_id, scope_id) references scopes (team_id, id)
);
create index key_grants_of_scope on key_grants (scope_id) where not of_deleted_key;

create function mark_grants_of_deleted_key() returns trigger language plpgsql as $$
begin
  update key_grants set of_deleted_key = true where key_id = new.id;
  return null;
end $$;
create trigger api_keys_deleted after update of deleted_at on api_keys for each row
  when (old.deleted_at is null and new.deleted_at is not null) execute function mark_grants_of_deleted_key();

-- Separate from api_keys, so that storing a use neither changes a key's version nor rewrites its row.
create table key_last_used (
  key_id       text primary key,
  team_id      text not null,
  last_used_at bigint not null,
  foreign key (team_id, key_id) references api_keys (team_id, id)
) with (fillfactor = 70);

-- The outbox of changes on their way to Redis. A row is written in the transaction of its change and applied right after
-- it; if the process dies in between, a sweeper applies it. `tx` orders the rows for the checkpoints. A null shard means
-- all shards. `is_put_back`: of an entity whose name in Redis something else holds: tried again every minute, by a new row each time,
-- until that is repaired. No checkpoint waits for it: it is not applied by an opening either.
create table changes (
  id          bigint generated always as identity primary key,
  kind        text not null check (kind in ('token', 'workspace', 'scope', 'key', 'billing', 'adjustment')),
  entity_id   text not null,
  shard       smallint,
  tx          xid8 not null default pg_current_xact_id(),
  created_at  timestamptz not null default now(),
  applied_at  timestamptz,
  is_put_back boolean not null default false
);
create index on changes (tx);
create index changes_waiting on changes (id) where applied_at is null;
create index changes_of_adjustments on changes (shard) where kind = 'adjustment' and applied_at is not null;
create index changes_waiting_of_entity on changes (entity_id) where applied_at is null;

-- The epoch of each Redis shard. It outlives Redis, because a repeated epoch could hide a lost event.
-- `booked_to`: up to which entry of its outbox (Unix ms and a number, as Redis names it) the books may have events of it; raised before
-- they get them. A shard whose log ends before that has lost what the books have, and is rebuilt from them.
create table shards (
  shard     smallint primary key,
  epoch     bigint not null default 0,
  booked_to bigint[]
);
insert into shards (shard) select generate_series(0, 63);
