-- Webhooks: who wants to be told what, and what is on its way to them. A delivery's row is the queue and the history: it is
-- written in the transaction of what it tells, and stays 30 days.
do $$ begin
  create role keytally_webhooks;
exception when duplicate_object or unique_violation then null;
end $$;

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
create index webhook_deliveries_claimed on webhook_deliveries (webhook_id, claimed_until) where claimed_until is not null;
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

-- What was told of a record's credits: they are exhausted once until they are replenished. `times` numbers it.
create table credit_states (
  billing_id   text primary key,
  team_id      text not null,
  times        bigint not null,
  is_exhausted boolean not null,
  changed_at   timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index credit_states_exhausted on credit_states (billing_id) where is_exhausted;

-- What begins, ends or is about to: each is looked for by its time.
create index grants_by_beginning on grants (begins_at) where voided_at is null;
create index grants_by_end on grants ((coalesce(rolls_until, expires_at))) where expires_at is not null and voided_at is null;
create index api_keys_by_end on api_keys (expires_at) where expires_at is not null and deleted_at is null;

grant select, insert, update on webhooks to keytally_api;
grant select, insert on webhook_events to keytally_api;
grant select, insert, update on webhook_sequences to keytally_api;
grant select, insert, update on webhook_deliveries to keytally_api;
grant select on webhook_tries, credit_states to keytally_api;

grant select on webhooks to keytally_consumer;
grant update (missed, missed_at) on webhooks to keytally_consumer;
grant delete on webhooks to keytally_consumer;
grant select, insert, delete on webhook_events, webhook_deliveries to keytally_consumer;
grant select, delete on webhook_tries to keytally_consumer;
grant select, insert, update on webhook_sequences, credit_states to keytally_consumer;

-- The program that calls outside: it sees no key, no credits and no token.
grant select on webhooks, webhook_events to keytally_webhooks;
grant update (enabled, disabled_reason, disabled_at, failing_since, is_slow, updated_at) on webhooks to keytally_webhooks;
grant select, update on webhook_deliveries to keytally_webhooks;
grant select, insert, delete on webhook_tries to keytally_webhooks;
grant insert on audit_log to keytally_webhooks;

do $$
declare one regclass;
begin
  foreach one in array array['webhooks', 'webhook_events', 'webhook_sequences', 'webhook_deliveries', 'webhook_tries',
                             'credit_states']::regclass[] loop
    execute format('alter table %s enable row level security', one);
    execute format('create policy team on %s to keytally_api using (is_of_team(team_id))', one);
    execute format('create policy jobs on %s to keytally_consumer using (true)', one);
  end loop;
  foreach one in array array['webhooks', 'webhook_events', 'webhook_deliveries', 'webhook_tries']::regclass[] loop
    execute format('create policy deliveries on %s to keytally_webhooks using (true)', one);
  end loop;
end $$;
create policy deliveries on audit_log for insert to keytally_webhooks with check (token_id is null and resource = 'webhook');
