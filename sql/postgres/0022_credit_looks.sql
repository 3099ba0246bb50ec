-- Billing records to look at for webhooks: their credits may be exhausted now, or replenished. Work to do that outlives the
-- process that noticed it: Redis says what is left, and may be unavailable. `mark` changes with every note; a note is removed
-- only while its mark is still the same.
create sequence credit_looks_seq;
create table credit_looks (
  billing_id text primary key,
  team_id    text not null,
  mark       bigint not null default nextval('credit_looks_seq'),
  look_at    timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index on credit_looks (look_at);

grant select, insert, update on credit_looks to keytally_api;
grant select, insert, update, delete on credit_looks to keytally_consumer;
grant usage on sequence credit_looks_seq to keytally_api, keytally_consumer;
alter table credit_looks enable row level security;
create policy team on credit_looks to keytally_api using (is_of_team(team_id));
create policy jobs on credit_looks to keytally_consumer using (true);
