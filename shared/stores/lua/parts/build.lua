-- Builders: one process at a time holds the build token of a closed shard and may write to it, to open it again.
--
-- Defines buildUntil()                     Redis time in ms, as text: a builder not heard of until then is taken for dead
--         passFence(metaKey, fence, ...)   The fence is a run id, or "build:<token>" of a builder. Gives {owner, build, ...}
--                                          with the fields that were asked for, false unless the shard is open for this
--                                          run id or this builder builds it; then the token, nil for a run id.
--         mayRebuild(billingKey, mark)     whether a record is still set aside with this mark; a shard that is built has none ("")
local function buildUntil() return format('%.0f', nowMs + 5000) end

local function passFence(metaKey, fence, ...)
  local meta = call('HMGET', metaKey, 'owner', 'build', ...)
  local token = string.match(fence, '^build:(.+)$')
  if token then return meta[2] == token and meta, token end
  return meta[1] == fence and meta
end

local function mayRebuild(billingKey, mark)
  return mark == '' or string.find(call('HGET', billingKey, 'u') or '', 'aside ' .. mark .. ' ', 1, true) ~= nil
end
