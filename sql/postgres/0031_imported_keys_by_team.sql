-- Two teams may have the same text that was made elsewhere: its hash is kept together with the team. The shard of an imported key, or of
-- its pointer, is of the text's hash as before. A text of our own form, which names its shard, is kept by its plain hash.
with foreign_texts as (
  select t.hash, t.team_id, t.key_id, t.pointer_shard, k.shard
  from key_texts t join api_keys k on k.id = t.key_id
  where t.imported
    and strpos('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_', left(t.hash, 1)) - 1
        = coalesce(t.pointer_shard, k.shard)
    -- One of our own form may be in the shard of its hash by chance: then its mask is longer than any of the others.
    and not (length(k.masked_key) > 12
             and not exists (select from key_texts o where o.key_id = k.id and not o.imported))
), renamed as (
  update key_texts t
  set hash = translate(rtrim(encode(sha256(convert_to(f.team_id || ':' || f.hash, 'UTF8')), 'base64'), '='), '+/', '-_')
  from foreign_texts f where t.hash = f.hash
)
-- Dated back, so that the sweeper applies them at once.
insert into changes (kind, entity_id, shard, created_at)
select 'key', key_id, shard, now() - interval '1 minute' from foreign_texts
union
select 'key', key_id, pointer_shard, now() - interval '1 minute' from foreign_texts where pointer_shard is not null;
