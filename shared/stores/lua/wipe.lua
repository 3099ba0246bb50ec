-- Removes records of a shard that is written anew.
--
-- KEYS  1 meta, 2.. what is removed
-- ARGV  1 build token
-- Gives {"OK" | "CLOSED", now in ms}
local time = redis.call('TIME')
local nowText = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
if redis.call('HGET', KEYS[1], 'build') ~= ARGV[1] then return { 'CLOSED', nowText } end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return { 'OK', nowText }
