-- Closes a shard and claims its reopening, whoever holds it: all that it has is to be written anew.
--
-- KEYS  1 meta, 2 outbox
-- ARGV  1 run id of this server, 2 build token
-- Gives {"CLAIMED", now in ms, "", epoch, now}
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local nowText = string.format('%.0f', now)
redis.call('HDEL', KEYS[1], 'owner', 'checkpoint')
redis.call('HSET', KEYS[1], 'build', ARGV[2], 'buildUntil', string.format('%.0f', now + 5000), 'closedFor', ARGV[1],
  'closedAt', nowText)
return { 'CLAIMED', nowText, '', redis.call('HGET', KEYS[1], 'epoch') or '0', nowText }
