-- Whether the books keep the addresses of end clients beside the refusals of the last day.
alter table workspaces add column keep_client_addresses boolean not null default true;
