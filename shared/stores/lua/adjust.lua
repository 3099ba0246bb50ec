-- Applies an adjustment to a billing record and appends its event, both or neither. Number n only comes after n - 1, so
-- that repeating it changes nothing.
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 run id, 2 not after (Redis time in ms), 3 number, 4 amount in micro-credits, 5 the event's JSON, begun
-- Gives {"OK", now in ms, used micro-credits} it is applied, now or before
--       {"EARLY", now, number applied last} | {"ABSENT", now} no such record here | {"CLOSED" | "LATE", now}
local number, amount = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local nowText = string.format('%.0f', now)

local meta = redis.call('HMGET', KEYS[1], 'owner', 'epoch')
if meta[1] ~= ARGV[1] then return { 'CLOSED', nowText } end
if now > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local record = redis.call('HMGET', KEYS[2], 's', 'u', 'a', 'n' .. meta[2])
if not record[1] then return { 'ABSENT', nowText } end
local used, last, sequence = tonumber(record[2] or '0'), tonumber(record[3] or '0'), tonumber(record[4] or '0')
if number <= last then return { 'OK', nowText, string.format('%.0f', used) } end
if number > last + 1 then return { 'EARLY', nowText, string.format('%.0f', last) } end

local usedText = string.format('%.0f', used + amount)
redis.call('XADD', KEYS[3], '*', 'e', string.format(
  '%s,"t":%s,"u":%s,"s":%.0f,"e":%s}', ARGV[5], nowText, usedText, sequence, meta[2]))
redis.call('HSET', KEYS[2], 'u', usedText, 'a', ARGV[3])
return { 'OK', nowText, usedText }
