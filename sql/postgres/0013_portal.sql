-- How the portal looks.
alter table workspaces add column if not exists branding jsonb;

-- The newest change stays from now on: it tells how far this database has come. Before, all of them were removed after a day.
insert into changes (kind, entity_id, applied_at) values ('workspace', 'none', now());
