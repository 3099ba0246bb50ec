-- Keys that were made elsewhere. The text of such a key names no shard, so its hash does. A key that draws on a billing record
-- lives in another shard, with the record: then `pointer_shard` is the hash's shard, which points there.
alter table key_texts
  add column imported boolean not null default false,
  add column pointer_shard smallint;
create index key_texts_imported on key_texts (team_id) where imported;
create index key_texts_pointers on key_texts (pointer_shard, key_id, hash) where pointer_shard is not null;
create index key_texts_ended on key_texts (replaced_at) where replaced_at is not null and not imported;

-- As in 0005, but the hash of an imported secret stays: importing the same file again must not bring back what was replaced.
create or replace function remove_ended_secrets(at_most int) returns int
  language plpgsql security definer set search_path = public, pg_temp as $$
declare
  hashes text[];
  teams text[];
begin
  select array_agg(hash), array_agg(distinct team_id) into hashes, teams from (
    select hash, team_id from key_texts
    where replaced_at < now() - interval '1 day' and not imported
      and replaced_at < coalesce((select created_at from changes where kind = 'key' order by id limit 1), now()) - interval '1 hour'
      and coalesce(valid_until, 0) < extract(epoch from now() - interval '1 day') * 1000
    order by replaced_at limit at_most) as ended;
  perform from api_keys where id in (select key_id from key_texts where hash = any(hashes)) order by id for no key update;
  delete from key_texts where hash = any(hashes);
  get diagnostics at_most = row_count;
  perform from team_usage where team_id = any(teams) order by team_id for update;
  return at_most;
end $$;
