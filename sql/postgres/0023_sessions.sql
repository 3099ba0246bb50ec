-- Sessions of the console: who signed in with which access token. The cookie's secret stands nowhere, only its hash.
create table sessions (
  id         text primary key,
  team_id    text not null references teams,
  token_id   text not null,
  hash       text not null unique,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  foreign key (team_id, token_id) references access_tokens (team_id, id)
);
create index on sessions (token_id, id);
create index on sessions (expires_at);

grant select, insert, delete on sessions to keytally_api;
grant select, delete on sessions to keytally_consumer;
alter table sessions enable row level security;
create policy team on sessions to keytally_api using (is_of_team(team_id));
create policy jobs on sessions to keytally_consumer using (true);
