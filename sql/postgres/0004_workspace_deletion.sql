-- Workspaces can be deleted, and what was deleted, replaced or has expired leaves Redis.

-- A deleted workspace's row stays, because its billing records and their books do. Its keys leave Redis in the order of
-- their ids: `keys_removed_to` is the last one whose removal stands in `changes`, and `keys_removed_at` is when the last of
-- all did. `removed_at` is when the removal of the workspace's own copies was written there.
alter table workspaces
  add column deleted_at timestamptz,
  add column keys_removed_to text not null default '',
  add column keys_removed_at timestamptz,
  add column removed_at timestamptz;
create index workspaces_to_remove on workspaces (deleted_at) where deleted_at is not null and removed_at is null;
create index workspaces_live on workspaces (id) where deleted_at is null;

alter table scopes add column removed_at timestamptz;
create index scopes_to_remove on scopes (deleted_at) where deleted_at is not null and removed_at is null;
create index scopes_live on scopes (id) where deleted_at is null;

create index access_tokens_live on access_tokens (shard, id) where revoked_at is null;

-- A change of a key names the secrets that its transaction replaced: their `replaced_at` is its `created_at`, because both
-- are the time at which that transaction began.
alter table key_texts add column created_at timestamptz not null default now();
create index key_texts_in_grace on key_texts (key_id, valid_until) where valid_until is not null;
create index key_texts_replaced on key_texts (replaced_at, key_id) where replaced_at is not null;
create index changes_waiting_of_entity on changes (entity_id) where applied_at is null;

-- Removes secrets that ended more than a day ago, oldest first, and gives how many. It leaves those that a change can still
-- name, for a shard that comes back older. As a function, so that the consumer can touch no secret that works.
create function remove_ended_secrets(at_most int) returns int
  language sql security definer set search_path = public, pg_temp
begin atomic
  with removed as (
    delete from key_texts where hash in (
      select hash from key_texts
      where replaced_at < now() - interval '1 day'
        and replaced_at < coalesce((select created_at from changes where kind = 'key' order by id limit 1), now()) - interval '1 hour'
        and coalesce(valid_until, 0) < extract(epoch from now() - interval '1 day') * 1000
      order by replaced_at limit at_most)
    returning hash)
  select count(*)::int from removed;
end;
revoke execute on function remove_ended_secrets from public;
grant execute on function remove_ended_secrets to keytally_consumer;
