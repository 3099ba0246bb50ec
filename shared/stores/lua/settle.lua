-- uses: names time build event
-- Sets the part of a record's balance that only the books know: the cost of events of earlier epochs that this Redis has
-- lost. The part is set, never added to, so repeating the call changes nothing, and a sum of fewer events never replaces
-- a sum of more. Adjustments that the books have and this Redis lacks are applied here, by their numbers.
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 epoch: events of the epochs below it were summed. It is the shard's epoch, or the next one while it is built.
--       4 cost of those events in micro-credits
--       5 how many they are
--       6 and 7 numbers of adjustments: the books have those after the first, up to the second
--       8 micro-credits of those adjustments
--       9 last balance in the books ("" when there is none)
--      10 start of the JSON of a settlement, the event that tells the new balance
-- Gives {"OK", now in ms, micro-credits by which the balance changed}
--       {"CORRUPT", now, error}   the record's counters can't be read
--       {"CLOSED" | "LATE", now}
local epoch, late, events = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local from, to, adjusted, lastBalance = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])

local function readCounters()
  local record = call('HMGET', KEYS[2], 'u', 'x', 'c', 'a', 'n' .. epoch)
  -- A record that hold.lua held has no counters: all that it used is in the books.
  if record[1] == 'held' then record[1] = '0' end
  for i = 1, 5 do record[i] = tonumber(record[i] or '0') or error('a counter of a billing record is no number') end
  return unpack(record)
end

local meta, token = passFence(KEYS[1], ARGV[1], 'epoch')
if not meta or not token and meta[3] ~= epoch then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local read, used, before, counted, last, sequence = pcall(readCounters)
if not read then return { 'CORRUPT', nowText, type(used) == 'table' and used.err or tostring(used) } end

local change = 0
if events > counted then change, before, counted = late - before, late, events end
if last == from and to > from then change, last = change + adjusted, to end
used = used + change
-- The last event in the books must show the balance in Redis. If not, append a settlement that does.
if change ~= 0 and sequence > 0 or sequence == 0 and lastBalance and used ~= lastBalance then
  sequence = sequence + 1
  appendEvent(KEYS[3], ARGV[10], used, sequence, epoch)
  call('HSET', KEYS[2], 'n' .. epoch, format('%.0f', sequence))
end
call('HSET', KEYS[2], 'u', format('%.0f', used), 'x', format('%.0f', before),
  'c', format('%.0f', counted), 'a', format('%.0f', last))
return { 'OK', nowText, format('%.0f', change) }
