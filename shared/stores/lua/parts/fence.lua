-- The fence: a shard is open for the server whose run id owns it, and for no other.
--
-- Needs   names
-- Defines openShard(metaKey, runId, ...)  {owner, ...} with the fields that were asked for; false unless this run id owns
--                                         the shard
local function openShard(metaKey, runId, ...)
  local meta = call('HMGET', metaKey, 'owner', ...)
  return meta[1] == runId and meta
end
