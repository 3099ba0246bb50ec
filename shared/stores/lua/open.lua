-- Opens a shard that was brought up to date, at least 1 s after it was closed: no rate window is granted twice.
--
-- KEYS  1 meta
-- ARGV  1 run id, 2 build token, 3 epoch, 4 checkpoint
-- Gives {"OPEN", now in ms} | {"WAIT", now, ms still to wait} | {"LOST", now} the build token is another's now
local runId, token, epoch, checkpoint = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local nowText = string.format('%.0f', now)

local meta = redis.call('HMGET', KEYS[1], 'build', 'closedAt', 'closedFor')
if meta[1] ~= token or meta[3] ~= runId then return { 'LOST', nowText } end
local wait = tonumber(meta[2]) + 1000 - now
-- A clock that was set back must not keep the shard closed for longer than the rule asks.
if wait > 1000 then
  redis.call('HSET', KEYS[1], 'closedAt', nowText)
  wait = 1000
end
if wait > 0 then
  redis.call('HSET', KEYS[1], 'buildUntil', string.format('%.0f', now + 5000))
  return { 'WAIT', nowText, string.format('%.0f', wait) }
end
-- Writes are counted from the moment on: no finding of before may hold, should an epoch ever come twice.
redis.call('HSET', KEYS[1], 'owner', runId, 'epoch', epoch, 'checkpoint', checkpoint, 'openedAt', nowText,
  'writes', nowText)
redis.call('HDEL', KEYS[1], 'build', 'buildUntil', 'closedAt', 'closedFor')
return { 'OPEN', nowText }
