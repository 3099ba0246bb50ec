-- Link tokens open the portal: the record that one shows, what else it permits, and the access token that made it. One of an
-- earlier version names no such token, and opens nothing.
alter table link_tokens
  add column created_by text,
  add column billing_id text,
  add column permissions text[] not null default '{}',
  add foreign key (team_id, created_by) references access_tokens (team_id, id),
  add foreign key (team_id, billing_id) references billing_records (team_id, id),
  add unique (team_id, id);

-- A session is of the console or of the portal: it stands for an access token or for a link token.
alter table sessions
  alter column token_id drop not null,
  add column link_token_id text,
  add foreign key (team_id, link_token_id) references link_tokens (team_id, id) on delete cascade,
  add constraint sessions_of_one check (num_nonnulls(token_id, link_token_id) = 1);
create index on sessions (link_token_id, id) where link_token_id is not null;
