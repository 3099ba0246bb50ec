-- uses: time build
-- Writes what limits had counted into a shard that is filled again.
--
-- KEYS  1 meta, 2.. the names of counters
-- ARGV  1 fence: "build:<token>" of the builder
--       2 not after: Redis time in ms
--       then two per name: the counters (parts/limits.lua), and for how long they are kept in ms
-- Gives {"OK", now in ms}
--       {"CLOSED" | "LATE", now}
return script(function()
  local meta, token = passFence(KEYS[1], ARGV[1])
  if not meta or not token then return { 'CLOSED', nowText } end
  if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
  for i = 2, #KEYS do call('SET', KEYS[i], ARGV[2 * i - 1], 'PX', ARGV[2 * i]) end
  return { 'OK', nowText }
end)
