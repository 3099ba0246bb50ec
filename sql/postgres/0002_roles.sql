-- What each program may do in Postgres. The owner runs the migrations; api and consumer log in as roles of their own;
-- verify and relay do not use Postgres. A role can log in once it has a password, which `migrate` sets if it gets one.
do $$ begin
  create role keytally_api;
exception when duplicate_object or unique_violation then null;
end $$;
do $$ begin
  create role keytally_consumer;
exception when duplicate_object or unique_violation then null;
end $$;

grant select, insert on teams to keytally_api;
-- Locking a team's row requires the right to update one of its columns.
grant update (name) on teams to keytally_api;
grant select, insert, update on
  access_tokens, workspaces, scopes, api_keys, key_texts, billing_records, link_tokens, signing_keys, idempotency_keys,
  changes
  to keytally_api;
grant select, insert, update, delete on key_grants to keytally_api;
grant select, insert on credit_ledger, adjustments, audit_log to keytally_api;
grant select on key_last_used, token_last_used, usage_marks, job_watermarks to keytally_api;
grant select, update on shards to keytally_api;
grant select, update on sequence changes_id_seq to keytally_api;

grant select on api_keys to keytally_consumer;
grant select (id, team_id) on access_tokens to keytally_consumer;
grant select, update (used_micros) on billing_records to keytally_consumer;
grant select, insert, update on key_last_used, token_last_used, job_watermarks, usage_losses to keytally_consumer;
grant select, insert, update, delete on usage_marks to keytally_consumer;
grant usage on sequence usage_marks_seq to keytally_consumer;
grant select, delete on idempotency_keys, link_tokens, changes to keytally_consumer;

-- A second line of defence behind each query's own condition on the team. The api sees and writes only rows of the team
-- that its transaction names in `keytally.team`, and no rows when it names none. Work for all teams (authentication,
-- applying changes, rebuilding Redis) names `*`.
create function is_of_team(team text) returns boolean language sql stable
  return current_setting('keytally.team', true) in (team, '*');

do $$
declare of_teams regclass;
begin
  for of_teams in
    select a.attrelid::regclass from pg_attribute a join pg_class c on c.oid = a.attrelid and c.relkind = 'r'
    where a.attname = 'team_id' and c.relnamespace = 'public'::regnamespace
  loop
    execute format('alter table %s enable row level security', of_teams);
    execute format('create policy team on %s to keytally_api using (is_of_team(team_id))', of_teams);
    execute format('create policy jobs on %s to keytally_consumer using (true)', of_teams);
  end loop;
end $$;
alter table teams enable row level security;
create policy team on teams to keytally_api using (is_of_team(id));
alter table usage_marks enable row level security;
create policy team on usage_marks to keytally_api
  using (exists (select from billing_records b where b.id = billing_id));
create policy jobs on usage_marks to keytally_consumer using (true);
