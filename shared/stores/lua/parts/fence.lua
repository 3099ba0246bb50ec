-- The fence: a shard is open for the server whose run id owns it, and for no other.
--
-- Defines openShard(metaKey, runId, ...)  {owner, ...} with the fields that were asked for; false unless this run id owns
--                                         the shard
--         openShardOf(tag, runId, ...)    the same by the tag of its names, read once for all calls of a script
local shards, shardsOf

local function openShard(metaKey, runId, ...)
  local meta = call('HMGET', metaKey, 'owner', ...)
  return meta[1] == runId and meta
end

local function openShardOf(tag, runId, ...)
  if shardsOf ~= KEYS then shards, shardsOf = {}, KEYS end
  local shard = shards[tag]
  if shard == nil then
    shard = openShard(tag .. 'meta', runId, ...)
    shards[tag] = shard
  end
  return shard
end
