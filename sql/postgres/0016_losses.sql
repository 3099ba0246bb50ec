-- A loss that was found once is told from here, and not searched for again in the events of its days.
alter table usage_losses
  add column after_event  text,
  add column before_seq   bigint,
  add column before_event text,
  add column is_priced    boolean not null default false,
  -- Earlier releases did not note what stands around a loss.
  add column is_whole     boolean not null default false;

grant select on usage_losses to keytally_api;
grant delete on usage_losses to keytally_consumer;
alter table usage_losses enable row level security;
create policy team on usage_losses to keytally_api
  using (exists (select from billing_records b where b.id = billing_id));
create policy jobs on usage_losses to keytally_consumer using (true);
