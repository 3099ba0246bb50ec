-- Plans: what billing records and their keys are given, under one name.

-- Each change makes the next version. `applies_to`: the records that have an earlier one are being given this one.
create table plans (
  id           text primary key,
  team_id      text not null,
  workspace_id text not null,
  name         text not null,
  applies_to   bigint,
  deleted_at   timestamptz,
  version      bigint not null default 1,
  created_at   timestamptz not null default now(),
  updated_at   timestamptz not null default now(),
  foreign key (team_id, workspace_id) references workspaces (team_id, id),
  unique (team_id, id)
);
create index plans_of_workspace on plans (workspace_id, id) where deleted_at is null;
create index plans_to_apply on plans (id) where applies_to is not null;

-- What a plan gave, gives or will give, and who said so. A record tells by it what it was given and what somebody set by hand.
create table plan_versions (
  plan_id    text not null,
  version    bigint not null,
  team_id    text not null,
  settings   json not null,
  token_id   text not null,
  request_id text not null,
  created_at timestamptz not null default now(),
  primary key (plan_id, version),
  foreign key (team_id, plan_id) references plans (team_id, id),
  foreign key (team_id, token_id) references access_tokens (team_id, id)
);

-- The plan that a record has, and which one it is given at `next_plan_at` (null: none, it leaves its plan). plan_token_id, plan_request_id:
-- who said so last.
alter table billing_records
  add plan_id text, add plan_version bigint, add next_plan_id text, add next_plan_at bigint,
  add plan_token_id text, add plan_request_id text,
  add foreign key (team_id, plan_id) references plans (team_id, id),
  add foreign key (team_id, next_plan_id) references plans (team_id, id);
create index billing_records_of_plan on billing_records (plan_id, plan_version, id) where plan_id is not null;
create index billing_records_to_plan on billing_records (next_plan_id) where next_plan_id is not null;
create index billing_records_plan_due on billing_records (next_plan_at, id) where next_plan_at is not null;

-- What a plan gave, so that what somebody gave by hand stays. plan_place: which one of the schedules of its version.
alter table grants add plan_id text, add foreign key (team_id, plan_id) references plans (team_id, id);
alter table grant_schedules
  add plan_id text, add plan_place smallint, add foreign key (team_id, plan_id) references plans (team_id, id);
create index grants_of_plan on grants (billing_id, (coalesce(rolls_until, expires_at, 9000000000000000))) where plan_id is not null;
create index grants_once_of_plan on grants (billing_id, plan_id) where plan_id is not null and schedule_id is null;
-- What is granted in the step that voids these gets no class of theirs (classes.ts).
create index grants_never_begun on grants (billing_id, class) where voided_at is not null and before_micros is null;

-- Versions stay, and count for ever.
create function use_of(v plan_versions) returns jsonb language sql immutable
  return jsonb_build_object('stored_bytes', 256 + octet_length(v.settings::text));
create constraint trigger count_new after insert on plan_versions deferrable initially deferred
  for each row execute function count_row();

grant select, insert, update on plans to keytally_api;
grant select, insert on plan_versions to keytally_api;

do $$
declare of_teams regclass;
begin
  foreach of_teams in array array['plans', 'plan_versions']::regclass[] loop
    execute format('alter table %s enable row level security', of_teams);
    execute format('create policy team on %s to keytally_api using (is_of_team(team_id))', of_teams);
  end loop;
end $$;
