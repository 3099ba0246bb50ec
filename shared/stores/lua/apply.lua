-- Writes versioned records of one shard. A record of a newer version is left as it is.
--
-- KEYS  1 meta, 2.. the record's key, one per record
-- ARGV  1 fence: the run id of the open shard, or "build:<token>" of its reopening
--       2 not after: Redis time in ms; a writer that comes later changes nothing
--       3 number of the last change in it: what is restored from an older Postgres is known by a lower one
--       then three per record: hash field ("" for a plain string), value (version first), lifetime in s (0: forever)
-- Gives {"OK", now in ms, then for each record left because newer its place in KEYS and its version}
--       | {"CLOSED", now} | {"LATE", now}
local fence, notAfter = ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local nowText = string.format('%.0f', now)

local build = string.match(fence, '^build:(.+)$')
if build then
  if redis.call('HGET', KEYS[1], 'build') ~= build then return { 'CLOSED', nowText } end
  redis.call('HSET', KEYS[1], 'buildUntil', string.format('%.0f', now + 5000))
elseif redis.call('HGET', KEYS[1], 'owner') ~= fence then
  return { 'CLOSED', nowText }
end
if now > notAfter then return { 'LATE', nowText } end

local before = redis.call('HMGET', KEYS[1], 'change', 'writes')
local change = before[1] or '0'
if tonumber(ARGV[3]) > tonumber(change) then change = ARGV[3] end
-- What was found in this shard up to now holds no longer (verify.lua).
redis.call('HSET', KEYS[1], 'change', change, 'writes', string.format('%.0f', tonumber(before[2] or '0') + 1))
local answer = { 'OK', nowText }
for i = 2, #KEYS do
  local key, field, value, lifetime = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], tonumber(ARGV[3 * i])
  local current
  if field == '' then current = redis.call('GET', key) else current = redis.call('HGET', key, field) end
  local currentVersion = current and tonumber(string.match(current, '^%d+'))
  if currentVersion and currentVersion > tonumber(string.match(value, '^%d+')) then
    answer[#answer + 1] = tostring(i)
    answer[#answer + 1] = string.match(current, '^%d+')
  elseif field ~= '' then
    redis.call('HSET', key, field, value)
  elseif lifetime > 0 then
    redis.call('SET', key, value, 'EX', lifetime)
  else
    redis.call('SET', key, value)
  end
end
return answer
