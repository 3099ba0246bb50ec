-- Reads the record of an access token, so that "not there" is told from "not known here".
--
-- KEYS  1 meta, 2 token
-- ARGV  1 run id
-- Gives {"OK", now in ms, packed record ("" when there is none)} | {"CLOSED", now}
local time = redis.call('TIME')
local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return { 'CLOSED', now } end
return { 'OK', now, redis.call('GET', KEYS[2]) or '' }
