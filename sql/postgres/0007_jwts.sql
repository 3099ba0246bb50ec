-- A scope's representation stays while a key that is not deleted has it. Grants of deleted keys stay as rows too, so the
-- question is an index of its own: one look into it, however many keys were deleted.
alter table key_grants add column of_deleted_key boolean not null default false;
update key_grants set of_deleted_key = true
from api_keys k where k.id = key_id and k.deleted_at is not null;
create index key_grants_of_scope on key_grants (scope_id) where not of_deleted_key;

-- A trigger, because a program of the version before deletes keys too while programs are replaced.
create function mark_grants_of_deleted_key() returns trigger language plpgsql as $$
begin
  update key_grants set of_deleted_key = true where key_id = new.id;
  return null;
end $$;
create trigger api_keys_deleted after update of deleted_at on api_keys for each row
  when (old.deleted_at is null and new.deleted_at is not null) execute function mark_grants_of_deleted_key();
