-- All settings; Postgres has the truth of them. Amounts are whole micro-credits. Times that clients send or get as
-- integers are Unix milliseconds. A foreign key between two rows of a team includes the team, so no row can refer to
-- another team's.

create table teams (
  id         text primary key,
  name       text not null unique,
  created_at timestamptz not null default now()
);

create table access_tokens (
  id            text primary key,
  team_id       text not null references teams,
  name          text not null,
  hash          text not null unique,
  masked_token  text not null,
  shard         smallint not null,
  permissions   text[] not null,
  workspace_ids text[],
  expires_at    bigint,
  revoked_at    timestamptz,
  version       bigint not null default 1,
  created_at    timestamptz not null default now(),
  updated_at    timestamptz not null default now(),
  unique (team_id, id)
);
create index on access_tokens (shard);

-- Separate from access_tokens for the reason that key_last_used is separate from api_keys.
create table token_last_used (
  token_id     text primary key,
  team_id      text not null,
  last_used_at bigint not null,
  foreign key (team_id, token_id) references access_tokens (team_id, id)
) with (fillfactor = 70);

create table workspaces (
  id                            text primary key,
  team_id                       text not null references teams,
  name                          text not null,
  default_key_prefix            text,
  default_allowed_ips           text[] not null default '{}',
  default_rate_limit_per_second int,
  default_expiration            bigint,
  last_scope_ref                int not null default 0,
  version                       bigint not null default 1,
  created_at                    timestamptz not null default now(),
  updated_at                    timestamptz not null default now(),
  unique (team_id, id)
);

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
  version        bigint not null default 1,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  unique (workspace_id, ref),
  unique (team_id, id)
);
create unique index scopes_representation on scopes (workspace_id, representation) where deleted_at is null;

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
  allowed_ips           text[],
  version               bigint not null default 1,
  created_at            timestamptz not null default now(),
  updated_at            timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  unique (team_id, id)
);
create index on api_keys (workspace_id, id);
create index on api_keys (workspace_id, customer_id, id);
create index on api_keys (workspace_id, external_meter_id, id);
create index on api_keys (shard, id);

-- Every secret that a key has had, as a hash. The current one has neither date. One that a rotation replaced works until
-- valid_until.
create table key_texts (
  hash        text primary key,
  team_id     text not null,
  key_id      text not null,
  valid_until bigint,
  replaced_at timestamptz,
  foreign key (team_id, key_id) references api_keys (team_id, id)
);
create index on key_texts (key_id);
create unique index key_texts_current on key_texts (key_id) where replaced_at is null;

-- Flags: 1 create, 2 read, 4 update, 8 delete. Grants of a deleted scope stay and have no effect.
create table key_grants (
  team_id  text not null,
  key_id   text not null,
  scope_id text not null,
  flags    smallint not null check (flags between 0 and 15),
  position smallint not null,
  primary key (key_id, scope_id),
  foreign key (team_id, key_id) references api_keys (team_id, id),
  foreign key (team_id, scope_id) references scopes (team_id, id)
);

-- Separate from api_keys, so that storing a use neither changes a key's version nor rewrites its row.
create table key_last_used (
  key_id       text primary key,
  team_id      text not null,
  last_used_at bigint not null,
  foreign key (team_id, key_id) references api_keys (team_id, id)
) with (fillfactor = 70);

-- used_micros is a copy to read while Redis is unavailable; Redis and the books have the truth. last_adjustment is the
-- number of the newest row in adjustments.
create table billing_records (
  id                text primary key,
  team_id           text not null,
  workspace_id      text not null,
  external_meter_id text not null,
  shard             smallint not null,
  total_micros      bigint not null check (total_micros between 0 and 9000000000000000),
  used_micros       bigint not null default 0,
  last_adjustment   int not null default 0,
  allow_overages    boolean not null,
  spend_cap_micros  bigint check (spend_cap_micros between 0 and 9000000000000000),
  version           bigint not null default 1,
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  constraint billing_records_meter unique (workspace_id, external_meter_id),
  unique (team_id, id)
);
create index on billing_records (shard, id);

create table credit_ledger (
  id            text primary key,
  team_id       text not null,
  billing_id    text not null,
  amount_micros bigint not null,
  total_micros  bigint not null,
  token_id      text not null,
  request_id    text not null,
  created_at    timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id)
);
create index on credit_ledger (billing_id, id);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is only ever added to', tg_table_name;
end $$;
create trigger credit_ledger_append_only before update or delete or truncate on credit_ledger
  for each statement execute function refuse_change();

-- Who changed what, written in the transaction of the change. Before and after never contain the secret of a key or
-- token. token_id and request_id are null for a change that an operator made by a command.
create table audit_log (
  id          text primary key,
  team_id     text not null references teams,
  token_id    text,
  operation   text not null,
  resource    text not null,
  resource_id text not null,
  before      json,
  after       json,
  request_id  text,
  created_at  timestamptz not null default now(),
  foreign key (team_id, token_id) references access_tokens (team_id, id)
);
create index on audit_log (team_id, id);
create index on audit_log (team_id, resource_id, id);
create trigger audit_log_append_only before update or delete or truncate on audit_log
  for each statement execute function refuse_change();

-- Corrections of used credits. Redis applies number n of a record only after n - 1, so none counts twice. The id is the
-- identity of the event in the books.
create table adjustments (
  id            text primary key,
  team_id       text not null,
  billing_id    text not null,
  number        int not null,
  amount_micros bigint not null,
  usage_name    text not null,
  day           date not null,
  reason        text not null,
  token_id      text not null,
  request_id    text not null,
  created_at    timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id),
  unique (billing_id, number)
);
create trigger adjustments_append_only before update or delete or truncate on adjustments
  for each statement execute function refuse_change();

create table link_tokens (
  id                  text primary key,
  team_id             text not null,
  workspace_id        text not null,
  customer_id         text not null,
  external_billing_id text,
  hash                text not null unique,
  expires_at          bigint not null,
  revoked_at          timestamptz,
  created_at          timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id)
);
create index on link_tokens (expires_at);

-- The private key is encrypted with AES-256-GCM, bound to kid and team, under a key derived from the master key that
-- `sealed_under` names. A retired key has no private key. `longest_seconds` is the longest lifetime of a JWT that the key
-- has signed.
create table signing_keys (
  kid               text primary key,
  team_id           text not null references teams,
  public_jwk        json not null,
  private_encrypted bytea,
  sealed_under      text,
  longest_seconds   int not null default 0,
  retired_at        timestamptz,
  created_at        timestamptz not null default now()
);
create unique index signing_keys_current on signing_keys (team_id) where retired_at is null;

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

-- The outbox of changes on their way to Redis. A row is written in the transaction of its change and applied right after
-- it; if the process dies in between, a sweeper applies it. `tx` orders the rows for the checkpoints. A null shard means
-- all shards.
create table changes (
  id         bigint generated always as identity primary key,
  kind       text not null check (kind in ('token', 'workspace', 'scope', 'key', 'billing', 'adjustment')),
  entity_id  text not null,
  shard      smallint,
  tx         xid8 not null default pg_current_xact_id(),
  created_at timestamptz not null default now(),
  applied_at timestamptz
);
create index on changes (tx);
create index changes_waiting on changes (id) where applied_at is null;

-- The epoch of each Redis shard. It outlives Redis, because a repeated epoch could hide a lost event.
create table shards (
  shard smallint primary key,
  epoch bigint not null default 0
);
insert into shards (shard) select generate_series(0, 63);

-- Days of a billing record whose sums in usage_daily are not, or no longer, complete. `mark` changes with every change.
create sequence usage_marks_seq;
create table usage_marks (
  billing_id text not null,
  day        date not null,
  mark       bigint not null default nextval('usage_marks_seq'),
  primary key (billing_id, day)
);
create index on usage_marks (day);

-- Usage that was lost with a Redis and reported to the operator: verifications after a number of an epoch that neither
-- the books nor Redis know.
create table usage_losses (
  billing_id    text not null,
  epoch         bigint not null,
  after_seq     bigint not null,
  events        bigint not null,
  amount_micros bigint not null,
  found_at      timestamptz not null default now(),
  primary key (billing_id, epoch, after_seq)
);

create table job_watermarks (
  job text primary key,
  at  bigint not null
);
