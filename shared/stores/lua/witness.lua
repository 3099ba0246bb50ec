-- Appends what a verify process remembers of a billing record, unless this Redis still knows of it: what was lost can
-- then be told from the books.
--
-- KEYS  1 meta, 2 outbox, 3 record of the key text that was verified
-- ARGV  1 run id, 2 not after (Redis time in ms), 3 epoch and 4 number that were answered, 5 the event's JSON, begun
-- Gives {"OK", now in ms, "1" when it was lost} | {"CLOSED" | "LATE", now}
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local nowText = string.format('%.0f', now)
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return { 'CLOSED', nowText } end
if now > tonumber(ARGV[2]) then return { 'LATE', nowText } end

local text = redis.call('GET', KEYS[3])
local _, state = struct.unpack('ss', text or '\0-\0')
if state ~= '-' then
  local _, _, _, workspaceId, _, _, _, _, _, meter = struct.unpack('ssssssssss', text)
  local record = string.sub(KEYS[1], 1, 5) .. 'b:' .. workspaceId .. ':' .. meter
  if tonumber(redis.call('HGET', record, 'n' .. ARGV[3]) or '0') >= tonumber(ARGV[4]) then
    return { 'OK', nowText, '' }
  end
end
redis.call('XADD', KEYS[2], '*', 'e', string.format('%s,"t":%s}', ARGV[5], nowText))
return { 'OK', nowText, '1' }
