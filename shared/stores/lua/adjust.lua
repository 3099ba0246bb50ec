-- uses: names time fence used event
-- Applies an adjustment to a billing record and appends its event, both or neither. Adjustment n is applied only after
-- n - 1 and only once, so repeating the call changes nothing.
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 run id
--       2 not after: Redis time in ms
--       3 number of the adjustment
--       4 amount in micro-credits
--       5 start of the event's JSON
-- Gives {"OK", now in ms, used micro-credits}           it is applied, now or before
--       {"EARLY", now, number of the last adjustment}   adjustments before it are missing
--       {"ABSENT", now}                                 there is no such record here
--       {"UNSETTLED", now, error}                       its balance is not known here
--       {"CLOSED" | "LATE", now}
local number, amount = tonumber(ARGV[3]), tonumber(ARGV[4])

local meta = openShard(KEYS[1], ARGV[1], 'epoch')
if not meta then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local record = redis.pcall('HMGET', KEYS[2], 's', 'a')
if record.err then return { 'UNSETTLED', nowText, record.err } end
if not record[1] then return { 'ABSENT', nowText } end
local read, usedText, used, sequence = pcall(readUsed, KEYS[2], 'n' .. meta[2])
if not read then return { 'UNSETTLED', nowText, type(usedText) == 'table' and usedText.err or tostring(usedText) } end
local last = tonumber(record[2] or '0')
if number <= last then return { 'OK', nowText, usedText } end
if number > last + 1 then return { 'EARLY', nowText, format('%.0f', last) } end

used = used + amount
usedText = format('%.0f', used)
appendEvent(KEYS[3], ARGV[5], used, sequence, meta[2])
call('HSET', KEYS[2], 'u', usedText, 'a', ARGV[3])
return { 'OK', nowText, usedText }
