-- Reads the used credits of a billing record, so that "nothing used yet" is told from "not known here".
--
-- KEYS  1 meta, 2 billing record
-- ARGV  1 run id of this server
-- Gives {"OK", now in ms, used micro-credits} | {"ABSENT", now} no such record here | {"CLOSED", now}
local time = redis.call('TIME')
local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return { 'CLOSED', now } end
local billing = redis.call('HMGET', KEYS[2], 's', 'u')
if not billing[1] then return { 'ABSENT', now } end
return { 'OK', now, billing[2] or '0' }
