-- How people come into the console beside an access token of their own.

-- A row that is `once` is no session: its secret is a code that begins one, and ends by that.
alter table sessions add column once boolean not null default false;

-- `subject`: who this token stands for at the provider of OpenID Connect. Nobody has its secret; each time they sign in, it gets the
-- rights of the groups that they are in by then.
alter table access_tokens add column subject text check (length(subject) <= 1024);
create unique index access_tokens_of_subject on access_tokens (team_id, subject) where subject is not null and revoked_at is null;
