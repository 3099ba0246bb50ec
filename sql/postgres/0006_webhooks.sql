-- Webhooks: who wants to be told what, and what is on its way to them. A delivery's row is the queue and the history: it is
-- written in the transaction of what it tells, and stays 30 days.

-- The secret is encrypted with AES-256-GCM, bound to the webhook, under a key derived from the master key that `sealed_under`
-- names; the one before it signs along until previous_until. `failing_since`: every try failed since then. `is_slow`: its last
-- answer took long, so it may take a part of the room alone. `missed`: events that were not told, because too many waited.
create table webhooks (
  id              text primary key,
  team_id         text not null references teams,
  workspace_id    text,
  url             text not null check (length(url) <= 2048),
  events          text[] not null,
  description     text,
  enabled         boolean not null default true,
  disabled_reason text check (disabled_reason in ('REQUESTED', 'GONE', 'FAILING')),
  disabled_at     timestamptz,
  failing_since   timestamptz,
  is_slow         boolean not null default false,
  missed          bigint not null default 0,
  missed_at       timestamptz,
  secret_sealed   bytea,
  previous_sealed bytea,
  previous_until  timestamptz,
  sealed_under    text,
  deleted_at      timestamptz,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  unique (team_id, id)
);
create index webhooks_of_team on webhooks (team_id, id) where deleted_at is null;
create index webhooks_deleted on webhooks (id) where deleted_at is not null;
create index webhooks_sealed on webhooks (sealed_under, id) where deleted_at is null;

-- What was told. The id follows from the cause, so a cause that comes again tells nothing. Only what a webhook wanted then has
-- a row.
create table webhook_events (
  id           text primary key,
  team_id      text not null references teams,
  workspace_id text,
  type         text not null,
  subject_id   text not null,
  at           bigint not null,
  data         json not null,
  created_at   timestamptz not null default now(),
  unique (team_id, id)
);
create index on webhook_events (created_at);

-- How many events were told of a record or a key: the last one's sequence.
create table webhook_sequences (
  subject_id text primary key,
  team_id    text not null references teams,
  last       bigint not null
);

-- While it waits, next_at is when it is due; while a program tries it, next_at and claimed_until are when another one may. So
-- one that died needs nobody to find out. `attempts` are those since it was told or asked for again, `tries` all.
create table webhook_deliveries (
  id            text primary key,
  team_id       text not null,
  webhook_id    text not null,
  event_id      text not null,
  sequence      bigint not null,
  state         text not null default 'WAITING' check (state in ('WAITING', 'DELIVERED', 'FAILED')),
  attempts      int not null default 0,
  tries         int not null default 0,
  next_at       timestamptz not null default now(),
  claimed_until timestamptz,
  ended_at      timestamptz,
  created_at    timestamptz not null default now(),
  foreign key (team_id, webhook_id) references webhooks (team_id, id),
  foreign key (team_id, event_id) references webhook_events (team_id, id),
  unique (webhook_id, event_id),
  unique (team_id, id)
) with (fillfactor = 70);
create index webhook_deliveries_due on webhook_deliveries (webhook_id, next_at) where state = 'WAITING';
create index webhook_deliveries_of_team on webhook_deliveries (team_id) where state = 'WAITING';
create index on webhook_deliveries (webhook_id, id);
create index on webhook_deliveries (event_id);
create index on webhook_deliveries (created_at);

-- `answer` is the first 1 KB of the answer's body, `error` why there was none.
create table webhook_tries (
  delivery_id text not null,
  number      int not null,
  team_id     text not null,
  at          timestamptz not null,
  duration_ms int not null,
  status      int,
  error       text,
  answer      text,
  primary key (delivery_id, number),
  foreign key (team_id, delivery_id) references webhook_deliveries (team_id, id)
);

