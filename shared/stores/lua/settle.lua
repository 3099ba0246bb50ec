-- Sets the part of a record's balance that only the books know of: what events of earlier epochs cost that this Redis
-- has lost. It is set, never added to, so that doing it again changes nothing; a sum of fewer events never replaces one
-- of more. Adjustments that the books have and this Redis lacks are taken over by their numbers.
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 fence: the run id of the open shard, or "build:<token>" of its reopening
--       2 not after: Redis time in ms      3 epoch below which the events were summed: the one that is, or is to come
--       4 their micro-credits              5 how many they are
--       6 and 7 numbers of adjustments: after the one and up to the other they are in the books
--       8 their micro-credits              9 last balance in the books ("" when there is none)
--      10 JSON of an event that tells the new balance, begun
-- Gives {"OK", now in ms, micro-credits that the balance changed by} | {"CLOSED" | "LATE", now}
local fence, epoch, late, events = ARGV[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local from, to, adjusted, lastBalance = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local nowText = string.format('%.0f', now)

local meta = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'build')
local build = string.match(fence, '^build:(.+)$')
if build and meta[3] ~= build or not build and (meta[1] ~= fence or meta[2] ~= epoch) then
  return { 'CLOSED', nowText }
end
if now > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local record = redis.call('HMGET', KEYS[2], 'u', 'x', 'c', 'a', 'n' .. epoch)
for i = 1, 5 do record[i] = tonumber(record[i] or '0') end
local used, before, counted, last, sequence = unpack(record)

local change = 0
if events > counted then change, before, counted = late - before, late, events end
if last == from and to > from then change, last = change + adjusted, to end
used = used + change
-- A line of its own where the lines that are there do not end in this balance.
if change ~= 0 and sequence > 0 or sequence == 0 and lastBalance and used ~= lastBalance then
  sequence = sequence + 1
  redis.call('XADD', KEYS[3], '*', 'e', string.format(
    '%s,"t":%s,"u":%.0f,"s":%.0f,"e":%s}', ARGV[10], nowText, used, sequence, epoch))
  redis.call('HSET', KEYS[2], 'n' .. epoch, string.format('%.0f', sequence))
end
redis.call('HSET', KEYS[2], 'u', string.format('%.0f', used), 'x', string.format('%.0f', before),
  'c', string.format('%.0f', counted), 'a', string.format('%.0f', last))
return { 'OK', nowText, string.format('%.0f', change) }
