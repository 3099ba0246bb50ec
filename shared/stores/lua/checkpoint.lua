-- Notes that every change of Postgres before a transaction id is in this shard. It never goes back.
--
-- KEYS  1 meta
-- ARGV  1 run id, 2 checkpoint (a transaction id)
-- Gives {"OK" | "CLOSED", now in ms}
local time = redis.call('TIME')
local nowText = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return { 'CLOSED', nowText } end
if tonumber(ARGV[2]) > tonumber(redis.call('HGET', KEYS[1], 'checkpoint') or '0') then
  redis.call('HSET', KEYS[1], 'checkpoint', ARGV[2])
end
return { 'OK', nowText }
