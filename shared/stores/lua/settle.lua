-- uses: names time build event
-- Sets the part of the balances of some records of one shard that only the books know: the cost of events of earlier epochs
-- that this Redis has lost. The part is set, never added to, so repeating the call changes nothing, and a sum of fewer events
-- never replaces a sum of more. Adjustments that the books have and this Redis lacks are applied here, by their numbers.
-- Each record stands alone: one whose counters can't be read holds up no other.
--
-- KEYS  1 meta, 2 outbox, 3 and more: billing records
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 epoch: events of the epochs below it were summed. It is the shard's epoch, or the next one while it is built.
--       and for each record:
--       1 cost of those events in micro-credits
--       2 how many they are
--       3 and 4 numbers of adjustments: the books have those after the first, up to the second
--       5 micro-credits of those adjustments
--       6 last balance in the books ("" when there is none)
--       7 start of the JSON of a settlement, the event that tells the new balance
-- Gives {"OK", now in ms, and for each record: "OK", micro-credits by which its balance changed
--                                          or "CORRUPT", the error: its counters can't be read}
--       {"CLOSED" | "LATE", now}
local FIRST_RECORD, FIRST_FIELD, FIELDS = 3, 4, 7
local epoch = ARGV[3]

local function readCounters(name)
  local record = call('HMGET', name, 'u', 'x', 'c', 'a', 'n' .. epoch)
  -- A record that hold.lua held has no counters: all that it used is in the books.
  if record[1] == 'held' then record[1] = '0' end
  for i = 1, 5 do record[i] = tonumber(record[i] or '0') or error('a counter of a billing record is no number') end
  return unpack(record)
end

local function settle(name, eventStart, late, events, from, to, adjusted, lastBalance)
  local read, used, before, counted, last, sequence = pcall(readCounters, name)
  if not read then return 'CORRUPT', type(used) == 'table' and used.err or tostring(used) end

  local change = 0
  if events > counted then change, before, counted = late - before, late, events end
  if last == from and to > from then change, last = change + adjusted, to end
  used = used + change
  -- The last event in the books must show the balance in Redis. If not, append a settlement that does.
  if change ~= 0 and sequence > 0 or sequence == 0 and lastBalance and used ~= lastBalance then
    sequence = sequence + 1
    appendEvent(KEYS[2], eventStart, used, sequence, epoch)
    call('HSET', name, 'n' .. epoch, format('%.0f', sequence))
  end
  call('HSET', name, 'u', format('%.0f', used), 'x', format('%.0f', before),
    'c', format('%.0f', counted), 'a', format('%.0f', last))
  return 'OK', format('%.0f', change)
end

local numbers = {}
for i = FIRST_RECORD, #KEYS do
  local first = FIRST_FIELD + (i - FIRST_RECORD) * FIELDS
  for j = first, first + FIELDS - 2 do numbers[j] = tonumber(ARGV[j]) end
end

local meta, token = passFence(KEYS[1], ARGV[1], 'epoch')
if not meta or not token and meta[3] ~= epoch then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local answer = { 'OK', nowText }
for i = FIRST_RECORD, #KEYS do
  local first = FIRST_FIELD + (i - FIRST_RECORD) * FIELDS
  answer[#answer + 1], answer[#answer + 2] = settle(KEYS[i], ARGV[first + FIELDS - 1],
    unpack(numbers, first, first + FIELDS - 2))
end
return answer
