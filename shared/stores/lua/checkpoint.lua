-- uses: names time fence
-- Notes that this shard has every change of Postgres before a transaction id. The checkpoint never goes back.
--
-- KEYS  1 meta
-- ARGV  1 run id, 2 checkpoint (a transaction id)
-- Gives {"OK" | "CLOSED", now in ms}
local meta = openShard(KEYS[1], ARGV[1], 'checkpoint')
if not meta then return { 'CLOSED', nowText } end
if tonumber(ARGV[2]) > tonumber(meta[2] or '0') then call('HSET', KEYS[1], 'checkpoint', ARGV[2]) end
return { 'OK', nowText }
