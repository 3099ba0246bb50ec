-- uses: names time build
-- Holds a billing record that could not be settled in a shard that is filled again. Its used credits become a text that is
-- no number, so that nobody takes them for 0: verify.lua answers CORRUPT until settle.lua has set the whole balance. Where they were set already and
-- something else of it failed, they are set aside, because the counters beside them (x, c, a) say that they are in it.
--
-- KEYS  1 meta, 2 billing record
-- ARGV  1 fence: "build:<token>" of the builder
--       2 not after: Redis time in ms
-- Gives {"OK", now in ms}
--       {"CLOSED" | "LATE", now}
local meta, token = passFence(KEYS[1], ARGV[1])
if not meta or not token then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local used = call('HGET', KEYS[2], 'u')
if used and used ~= 'held' then call('HSET', KEYS[2], 'h', used) end
call('HSET', KEYS[2], 'u', 'held')
return { 'OK', nowText }
