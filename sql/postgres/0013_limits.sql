-- Limits over windows, as the API takes and answers them: of a key (null: those of its workspace), of the keys of a workspace, and
-- of a billing record.
alter table api_keys add column limits json;
alter table workspaces add column default_limits json;
alter table billing_records add column limits json;
