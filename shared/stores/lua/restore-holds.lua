-- uses: time build remember limits limits-of-holds account holds
-- Writes holds that the books have of records that are set aside, or of a shard that is built: open ones, and those that were settled
-- within 48 h. Written again, they are the same. In a shard that is built, what open ones reserve is counted by their limits.
--
-- KEYS  1 meta, and for each record: itself, its open holds, when they end
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 mark that the records were set aside with; "" in a shard that is built
--       then for each record how many of its holds follow, and four per hold: its 26 characters, its text (as parts/holds.lua makes it of an
--       open one, and keeps it of a settled one), when an open one ends in ms ("" of a settled one), and for how long a settled one is kept,
--       in s
-- Gives {"OK" | "CLOSED" | "LATE", now in ms}; nothing is written of a record that another one has set aside since

-- Counts what an open hold reserves, which the books' sums lack.
local function count(record, text)
  local hold, tag, place, known = unpackHold('', text), sub(record, 1, 5), sub(record, 8), {}
  local lost = { held = 0, used = hold.micros, isLost = true }
  correctLimits(hold.limits, { tag .. 'l:' .. hold.keyId, tag .. 'l:' .. place }, lost, known)
  for _, counters in pairs(known) do writeCounters(counters) end
end

return script(function()
  local FIRST_RECORD, FIRST_COUNT = 2, 4
  local mark, countAt = ARGV[3], FIRST_COUNT

  local function restore(at, record, openKey, endsKey)
    local id, text, endsAtMs, keptSeconds = unpack(ARGV, at, at + 3)
    if endsAtMs ~= '' then
      local isNew = call('HSET', openKey, id, text) == 1
      call('ZADD', endsKey, endsAtMs, id)
      if isNew and mark == '' and byte(text, -1) ~= 0 then count(record, text) end
    else
      call('SETEX', sub(record, 1, 5) .. 'z:' .. id, keptSeconds, text)
    end
  end

  if not passFence(KEYS[1], ARGV[1]) then return { 'CLOSED', nowText } end
  if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
  for i = FIRST_RECORD, #KEYS, 3 do
    local last = countAt + 4 * tonumber(ARGV[countAt])
    for at = countAt + 1, mayRebuild(KEYS[i], mark) and last or countAt, 4 do restore(at, unpack(KEYS, i, i + 2)) end
    countAt = last + 1
  end
  return { 'OK', nowText }
end)
