-- uses: names time build remember limits limits-of-holds account holds
-- Writes holds that the books have of a record that is set aside, or of a shard that is built: open ones, and those that were settled
-- within 48 h. Written again, they are the same. In a shard that is built, what open ones reserve is counted by their limits.
--
-- KEYS  1 meta, 2 the record, 3 its open holds, 4 when they end
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 mark that the record was set aside with; "" in a shard that is built
--       then four per hold: its 26 characters, its text (of an open one as parts/holds.lua packs it, of a settled one as it keeps
--       it), when an open one ends in ms ("" of a settled one), and for how long a settled one is kept, in s
-- Gives {"OK" | "CLOSED" | "LATE", now in ms}; nothing is written where another one has set it aside since
-- Counts what an open hold reserves, which the books' sums lack.
local function count(text)
  local hold, tag, place, known = unpackHold('', text), sub(KEYS[2], 1, 5), sub(KEYS[2], 8), {}
  local lost = { held = 0, used = hold.micros, isLost = true }
  correctLimits(hold.limits, { tag .. 'l:' .. hold.keyId, tag .. 'l:' .. place }, lost, known)
  for _, counters in pairs(known) do writeCounters(counters) end
end

return script(function()
  local mark = ARGV[3]

  if not passFence(KEYS[1], ARGV[1]) then return { 'CLOSED', nowText } end
  if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
  for i = 4, mayRebuild(KEYS[2], mark) and #ARGV or 0, 4 do
    local id, text, endsAtMs, keptSeconds = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    if endsAtMs ~= '' then
      local isNew = call('HSET', KEYS[3], id, text) == 1
      call('ZADD', KEYS[4], endsAtMs, id)
      if isNew and mark == '' and byte(text, -1) ~= 0 then count(text) end
    else
      call('SETEX', sub(KEYS[1], 1, 5) .. 'z:' .. id, keptSeconds, text)
    end
  end
  return { 'OK', nowText }
end)
