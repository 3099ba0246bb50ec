-- Claims the reopening of a closed shard: takes the build token, unless a builder that still lives holds it.
--
-- KEYS  1 meta, 2 outbox
-- ARGV  1 run id of this server, 2 build token
-- Gives {"OPEN", now in ms} nothing to do | {"BUSY", now} another builds
--       {"CLAIMED", now, checkpoint ("" when emptied), epoch, ms since which this shard may lack what the books have}
local runId, token = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local nowText = string.format('%.0f', now)

local meta = redis.call('HMGET', KEYS[1], 'owner', 'build', 'buildUntil', 'checkpoint', 'epoch', 'closedFor', 'openedAt')
if meta[1] == runId then return { 'OPEN', nowText } end
if meta[2] and meta[2] ~= token and tonumber(meta[3] or '0') > now then return { 'BUSY', nowText } end

-- The last entry that it still knows of, which may be gone from the stream.
local since = tonumber(meta[7] or '0')
local stream = redis.pcall('XINFO', 'STREAM', KEYS[2])
for i = 1, #stream, 2 do
  if stream[i] == 'last-generated-id' then since = math.max(since, tonumber(string.match(stream[i + 1], '^%d+'))) end
end

redis.call('HDEL', KEYS[1], 'owner')
redis.call('HSET', KEYS[1], 'build', token, 'buildUntil', string.format('%.0f', now + 5000))
-- The moment this server was first seen closed: its rate windows start there.
if meta[6] ~= runId then
  redis.call('HSET', KEYS[1], 'closedFor', runId, 'closedAt', nowText)
end
return { 'CLAIMED', nowText, meta[4] or '', meta[5] or '0', string.format('%.0f', since) }
