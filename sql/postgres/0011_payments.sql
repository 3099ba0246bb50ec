-- Payments: what was paid elsewhere becomes credits, exactly once.

-- `secret_sealed` is sealed as webhooks' secrets are; the one before it counts along until previous_until. `token_id`: who made the
-- source, and so what its payments grant. `metadata_field`: where a payment names a meter. `destination_id`: the meter destination by
-- whose ids of records a customer is found; null: by their externalMeterId.
create table payment_sources (
  id              text primary key,
  team_id         text not null references teams,
  workspace_id    text not null,
  kind            text not null check (kind in ('stripe')),
  name            text not null,
  rules           json not null,
  metadata_field  text,
  destination_id  text,
  secret_sealed   bytea,
  previous_sealed bytea,
  previous_until  timestamptz,
  sealed_under    text not null,
  token_id        text not null,
  deleted_at      timestamptz,
  version         bigint not null default 1,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id),
  unique (team_id, id)
);
create index payment_sources_of_workspace on payment_sources (workspace_id, id) where deleted_at is null;
create index payment_sources_sealed on payment_sources (sealed_under, id) where deleted_at is null;

-- One payment of a workspace, under what its sender calls the object of it, whichever source told of it. `credits_micros` is all that
-- it makes; `voided_micros` of that was refunded, before the grant or after it. `prices`: how many of each; null: not all are known.
create table payments (
  id                text primary key,
  team_id           text not null,
  workspace_id      text not null,
  source_id         text not null,
  object_id         text not null,
  event             text not null,
  state             text not null,
  amount            bigint not null check (amount > 0),
  currency          text not null,
  customer          text,
  external_meter_id text,
  top_up_id         text,
  prices            json,
  refunded          bigint not null default 0,
  billing_id        text,
  grant_id          text,
  credits_micros    bigint,
  voided_micros     bigint check (voided_micros between 0 and credits_micros),
  paid_at           timestamptz not null,
  created_at        timestamptz not null default now(),
  foreign key (team_id, source_id) references payment_sources (team_id, id),
  foreign key (team_id, billing_id) references billing_records (team_id, id),
  unique (workspace_id, object_id)
);
create index on payments (source_id, id);
create index payments_by_state on payments (source_id, state, id);
create index payments_of_top_ups on payments (workspace_id, top_up_id) where top_up_id is not null;

-- Names of payments: an invoice and the payment intent that paid it are one, under the first of their names that was told.
create table payment_names (
  workspace_id text not null,
  name         text not null,
  team_id      text not null,
  object_id    text not null,
  primary key (workspace_id, name)
);
create index on payment_names (workspace_id, object_id);

-- How much of a charge was given back, also before its payment is told. It only grows.
create table payment_refunds (
  workspace_id text not null,
  charge_id    text not null,
  team_id      text not null,
  name         text not null,
  refunded     bigint not null,
  primary key (workspace_id, charge_id)
);
create index on payment_refunds (workspace_id, name);

create index billing_records_elsewhere on billing_records using gin ((external_ids::jsonb) jsonb_path_ops)
  where external_ids is not null;

grant select, insert, update on payment_sources, payments, payment_names, payment_refunds to keytally_api;

do $$
declare of_teams regclass;
begin
  foreach of_teams in array array['payment_sources', 'payments', 'payment_names', 'payment_refunds']::regclass[] loop
    execute format('alter table %s enable row level security', of_teams);
    execute format('create policy team on %s to keytally_api using (is_of_team(team_id))', of_teams);
  end loop;
end $$;
