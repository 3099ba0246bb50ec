-- uses: time build
-- Sets a billing record aside, to be rebuilt: its used credits become a text that is no number, so that nobody takes them for 0 and
-- verify.lua answers CORRUPT until rebuild.lua has set the whole balance. Its open holds go with it: they come back from the books.
-- What counts its events and adjustments stays: the books have all of them once they have these numbers.
--
-- KEYS  1 meta, then three per record: the record, its open holds, and when they end
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 mark of who rebuilds them
-- Gives {"OK", now in ms, epoch, then three per record: its last sequence number in that epoch, the number of its last adjustment, and
--       since when it is set aside, in ms}
--       {"CLOSED" | "LATE", now}
return script(function()
  local meta = passFence(KEYS[1], ARGV[1], 'epoch')
  if not meta then return { 'CLOSED', nowText } end
  if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
  local answer = { 'OK', nowText, meta[3] or '0' }
  for i = 2, #KEYS, 3 do
    -- Whatever holds its name makes no difference to what stands in its place then.
    local counters = redis.pcall('HMGET', KEYS[i], 'n' .. (meta[3] or '0'), 'a', 'u')
    if counters.err then
      call('UNLINK', KEYS[i])
      counters = {}
    end
    local sinceMs = string.match(counters[3] or '', '^aside %S+ (%d+)$') or nowText
    call('HDEL', KEYS[i], 't')
    call('HSET', KEYS[i], 'u', 'aside ' .. ARGV[3] .. ' ' .. sinceMs)
    call('UNLINK', KEYS[i + 1], KEYS[i + 2])
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = counters[1] or '0', counters[2] or '0', sinceMs
  end
  return answer
end)
