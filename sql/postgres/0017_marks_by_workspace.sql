-- Days of unmetered verifications are summed up as well, so a mark names its workspace. For these `billing_id` is the workspace's
-- id: a version before finds its marks by (billing_id, day), and goes on working.
alter table usage_marks add column workspace_id text not null default '';
update usage_marks set workspace_id = b.workspace_id from billing_records b where b.id = usage_marks.billing_id;
create index on usage_marks (workspace_id, day);

drop policy team on usage_marks;
create policy team on usage_marks to keytally_api
  using (exists (select from billing_records b where b.id = billing_id) or exists (select from workspaces w where w.id = billing_id));
