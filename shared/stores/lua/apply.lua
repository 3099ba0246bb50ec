-- uses: time build records
-- Writes versioned records of one shard. It leaves a record alone that has a newer version already. An account whose settings are
-- other ones now has to be brought up to date (bring-up-to-date.lua), also where nobody calls.
--
-- KEYS  1 meta
--       2.. one per record
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 number of the last change among them. After Postgres was restored from an older backup its numbers are lower
--         than the shard's: that is how the restore is noticed.
--       then three per record: hash field ("" for a plain string), value (version first), lifetime in s (0: forever,
--         below 0: it is removed)
-- Gives {"OK", now in ms, then two per record that was left alone: its place in KEYS, its version here, or
--       CORRUPT where something else holds its name}
--       {"CLOSED" | "LATE", now}
return script(function()
  local meta, token = passFence(KEYS[1], ARGV[1], 'change', 'writes')
  if not meta then return { 'CLOSED', nowText } end
  if token then call('HSET', KEYS[1], 'buildUntil', buildUntil()) end
  if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end

  local change, writes = meta[3] or '0', tonumber(meta[4] or '0')
  if tonumber(ARGV[3]) > tonumber(change) then change = ARGV[3] end
  -- Counting the write ends every lookup of this shard (verify.lua).
  call('HSET', KEYS[1], 'change', change, 'writes', format('%.0f', writes + 1))
  local answer = { 'OK', nowText }
  for i = 2, #KEYS do
    local key, field, value, lifetime = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], tonumber(ARGV[3 * i])
    local current
    if field == '' then current = redis.pcall('GET', key) else current = redis.pcall('HGET', key, field) end
    local damaged = type(current) == 'table'
    local currentVersion = current and not damaged and tonumber(string.match(current, '^%d+'))
    if currentVersion and currentVersion > tonumber(string.match(value, '^%d+')) then
      answer[#answer + 1] = tostring(i)
      answer[#answer + 1] = string.match(current, '^%d+')
    elseif damaged and field ~= '' then
      -- Something that is no hash holds its name. The other records must not wait for it.
      answer[#answer + 1] = tostring(i)
      answer[#answer + 1] = 'CORRUPT'
    elseif lifetime < 0 then
      if field == '' then call('UNLINK', key) else call('HDEL', key, field) end
    elseif field ~= '' then
      call('HSET', key, field, value)
      if field == 's' and current ~= value and (declaresClasses(value) or string.byte(call('HGET', key, 'u') or '') == 64) then
        redis.pcall('ZADD', string.sub(key, 1, 5) .. 'due', '0', key)
      end
    elseif lifetime > 0 then
      call('SET', key, value, 'EX', lifetime)
    else
      call('SET', key, value)
    end
  end
  return answer
end)
