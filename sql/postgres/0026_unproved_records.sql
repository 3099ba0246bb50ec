-- Billing records that the last comparison with the books did not find exact. The one that finds a record exact removes its row.
-- When the last comparison of all records began stands in job_watermarks, as 'reconciled'.
create table unproved_records (
  billing_id             text primary key,
  team_id                text not null,
  workspace_id           text not null,
  status                 text not null check (status in ('MISSING', 'TOO_MUCH', 'ON_ITS_WAY')),
  difference_micros      bigint not null,
  held_difference_micros bigint not null,
  -- Since when it has this status.
  since                  timestamptz not null default now(),
  foreign key (team_id, billing_id) references billing_records (team_id, id)
);
create index on unproved_records (workspace_id, status, billing_id);

grant select on unproved_records to keytally_api;
grant select, insert, update, delete on unproved_records to keytally_consumer;
alter table unproved_records enable row level security;
create policy team on unproved_records to keytally_api using (is_of_team(team_id));
create policy jobs on unproved_records to keytally_consumer using (true);
