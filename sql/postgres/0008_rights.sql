-- What each program may do in Postgres. The owner runs the migrations; api, consumer and webhooks log in as roles of their own;
-- verify and relay do not use Postgres. A role can log in once it has a password, which `migrate` sets if it gets one.
do $$
declare name text;
begin
  foreach name in array array['keytally_api', 'keytally_consumer', 'keytally_webhooks'] loop
    begin
      execute format('create role %I', name);
    exception when duplicate_object or unique_violation then null;
    end;
  end loop;
end $$;

grant select, insert on teams to keytally_api;
-- Locking a team's row requires the right to update one of its columns.
grant update (name, tokens_revoked_at, shares_signing_keys, jwt_issuer) on teams to keytally_api;
grant select, insert, update on
  access_tokens, workspaces, scopes, api_keys, key_texts, billing_records, link_tokens, idempotency_keys, changes, grants,
  grant_schedules, credit_looks, webhooks, webhook_sequences, webhook_deliveries
  to keytally_api;
grant select, insert, update, delete on
  key_grants, grant_classes, signing_keys, revoked_jwts, unsettled_records
  to keytally_api;
grant select, insert on credit_ledger, adjustments, audit_log, webhook_events, workspace_months to keytally_api;
grant update (accepts_differences, looked_at) on workspace_months to keytally_api;
grant select, insert, delete on sessions to keytally_api;
grant select on audit_unchained, audit_chain to keytally_api;
grant execute on function chain_audit_log to keytally_api;
grant select on
  key_last_used, token_last_used, usage_marks, usage_losses, job_watermarks, statement_lines, late_months, unproved_records,
  alerts_told, credit_states, webhook_tries, team_usage, team_quotas
  to keytally_api;
grant insert, update, delete on team_quotas to keytally_api;
grant select, update on shards to keytally_api;
grant select, update (booked_to) on shards to keytally_consumer;
grant select, update on sequence changes_id_seq to keytally_api;
grant usage on sequence unsettled_records_seq, credit_looks_seq to keytally_api, keytally_consumer;

grant select on api_keys, grant_classes, grants, credit_ledger, adjustments, workspaces, billing_records, webhooks to keytally_consumer;
grant select (id, team_id) on access_tokens to keytally_consumer;
grant update (used_micros, held_micros, expired_micros, total_of_account_micros) on billing_records to keytally_consumer;
grant update (month_due_at) on workspaces to keytally_consumer;
grant select, insert, update on
  key_last_used, token_last_used, job_watermarks, workspace_months, webhook_sequences, credit_states
  to keytally_consumer;
grant select, insert, update, delete on
  usage_marks, usage_losses, unsettled_records, unproved_records, credit_looks
  to keytally_consumer;
grant usage on sequence usage_marks_seq to keytally_consumer;
grant select, insert on statement_lines to keytally_consumer;
grant select, update on late_months to keytally_consumer;
grant select, insert, delete on alerts_told, webhook_events, webhook_deliveries to keytally_consumer;
grant select, delete on idempotency_keys, link_tokens, changes, revoked_jwts, sessions, webhook_tries to keytally_consumer;
grant update (missed, missed_at), delete on webhooks to keytally_consumer;
-- A month that closes by itself has a line in the audit log, like one that somebody closes.
grant insert on audit_log to keytally_consumer;
revoke execute on function remove_ended_secrets, remove_ended_signing_keys from public;
grant execute on function remove_ended_secrets, remove_ended_signing_keys to keytally_consumer;

-- The program that calls outside: it sees no key, no credits and no token.
grant select on webhooks, webhook_events to keytally_webhooks;
grant update (enabled, disabled_reason, disabled_at, failing_since, is_slow, updated_at) on webhooks to keytally_webhooks;
grant select, update on webhook_deliveries to keytally_webhooks;
grant select, insert, delete on webhook_tries to keytally_webhooks;
grant insert on audit_log to keytally_webhooks;

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
-- Of unmetered verifications a mark names its workspace.
alter table usage_marks enable row level security;
create policy team on usage_marks to keytally_api
  using (exists (select from billing_records b where b.id = billing_id) or exists (select from workspaces w where w.id = billing_id));
create policy jobs on usage_marks to keytally_consumer using (true);
alter table usage_losses enable row level security;
create policy team on usage_losses to keytally_api using (exists (select from billing_records b where b.id = billing_id));
create policy jobs on usage_losses to keytally_consumer using (true);

-- No request of a team needs these. A look at the record of each row of unsettled_records would cost more than the work on it.
do $$
declare of_nobody regclass;
begin
  foreach of_nobody in array array['audit_unchained', 'audit_chain', 'unsettled_records']::regclass[] loop
    execute format('alter table %s enable row level security', of_nobody);
    execute format($policy$create policy every_team on %s to keytally_api using (current_setting('keytally.team', true) = '*')$policy$, of_nobody);
  end loop;
end $$;
create policy jobs on unsettled_records to keytally_consumer using (true);
alter table uncounted_keys enable row level security;

-- The api adds lines for the team of its transaction alone; work for all teams adds those of the operator, who has no token.
create policy own_team_adds on audit_log as restrictive for insert to keytally_api
  with check (current_setting('keytally.team', true) = team_id
              or (current_setting('keytally.team', true) = '*' and token_id is null));
create policy own_jobs_add on audit_log as restrictive for insert to keytally_consumer
  with check (token_id is null and resource = 'workspace_month');
create policy deliveries on audit_log for insert to keytally_webhooks with check (token_id is null and resource = 'webhook');
do $$
declare of_webhooks regclass;
begin
  foreach of_webhooks in array array['webhooks', 'webhook_events', 'webhook_deliveries', 'webhook_tries']::regclass[] loop
    execute format('create policy deliveries on %s to keytally_webhooks using (true)', of_webhooks);
  end loop;
end $$;
