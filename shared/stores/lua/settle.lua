-- uses: names time build records event hot-account hold-line alerts-mark account limits limits-of-holds holds turns open-account
-- Sets the part of the balances of some records of one shard that only the books know: the cost of events of earlier epochs
-- that this Redis has lost. The part is set, never added to, so repeating the call changes nothing, and a sum of fewer events
-- never replaces a sum of more. Adjustments that the books have and this Redis lacks are applied here, by their numbers.
-- Each record stands alone: one whose counters can't be read holds up no other. An account that this Redis lost comes back from
-- its last turn in the books; the next turn lays over its classes what was used since.
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
--       8 of an account, total, expired and state of its last turn in the books, as the turn's line has them ("": none)
-- Gives {"OK", now in ms, and for each record: "OK", micro-credits by which its balance changed
--                                          or "CORRUPT", the error: its counters can't be read}
--       {"CLOSED" | "LATE", now}
local FIRST_RECORD, FIRST_FIELD, FIELDS = 3, 4, 8
local epoch = ARGV[3]

-- The account that a record has, or that the books bring back; nil of a plain one.
local function accountIn(record, lastTurn)
  local usedText = record[1]
  if usedText and string.byte(usedText) == 64 then return readHot(usedText) end
  if usedText or lastTurn == '' then return nil end
  local total, expired, stateAt = unpackTexts('ss', lastTurn)
  return {
    used = 0, held = 0, total = tonumber(total), expired = tonumber(expired), limit = 0, untilMs = 0, alertAt = NO_ALERT, settings = '',
    number = tonumber((unpackTexts('s', lastTurn, stateAt))), stateText = string.sub(lastTurn, stateAt), told = {},
  }
end

local function readCounters(name, lastTurn)
  local record = call('HMGET', name, 'u', 'x', 'c', 'a', 'n' .. epoch)
  -- Of a record that hold.lua held: what it had set aside. Without that it has no counters, and all that it used is in the books.
  local wasHeld = record[1] == 'held'
  if wasHeld then record[1] = call('HGET', name, 'h') end
  local account = accountIn(record, lastTurn)
  if account then record[1] = account.used end
  for i = 1, 5 do record[i] = tonumber(record[i] or '0') or error('a counter of a billing record is no number') end
  record[6] = wasHeld
  return account, unpack(record)
end

-- Adds to what an account used; below 0 its classes get it again, which is a turn. Gives whether it turned.
local function addToAccount(name, account, sequence, micros)
  account.billingKey, account.epoch, account.sequence = name, epoch, sequence
  if micros >= 0 then
    account.used = account.used + micros
    -- The next turn tells which alerts it crossed; this asks for it.
    if account.used >= account.alertAt then
      account.untilMs = 0
      redis.pcall('ZADD', string.sub(name, 1, 5) .. 'due', '0', name)
    end
    return false
  end
  local state = call('HMGET', name, 't', 's')
  local changed, whole = turnAccount(account, name, account.stateText or state[1], state[2])
  if not whole then error('more of the account fell due than one call does') end
  giveBack(account, -micros)
  return true
end

local function settle(name, eventStart, lastTurn, late, events, from, to, adjusted, lastBalance)
  local read, account, used, before, counted, last, sequence, wasHeld = pcall(readCounters, name, lastTurn)
  if not read then return 'CORRUPT', type(account) == 'table' and account.err or tostring(account) end

  local change = 0
  if events > counted then change, before, counted = late - before, late, events end
  if last == from and to > from then change, last = change + adjusted, to end
  used = used + change
  local added, turned = true, false
  if account then added, turned = pcall(addToAccount, name, account, sequence, change) end
  if not added then return 'CORRUPT', type(turned) == 'table' and turned.err or tostring(turned) end
  -- Its holds that ended meanwhile have lines of their own.
  local lines = account and account.lines or {}
  if account then used, sequence = account.used, account.sequence end
  -- The last event in the books must show the balance in Redis. If not, append a settlement that does.
  if change ~= 0 and sequence > 0 or sequence == 0 and lastBalance and used ~= lastBalance then
    sequence = sequence + 1
    lines[#lines + 1] = eventText(eventStart, used, sequence, epoch, account and account.held)
  end
  if turned then
    account.sequence = sequence
    tellTurn(account)
    sequence = account.sequence
  end
  if #lines > 0 then
    appendLines(KEYS[2], lines)
    call('HSET', name, 'n' .. epoch, format('%.0f', sequence))
  end
  call('HSET', name, 'u', account and usedTextOf(account) or format('%.0f', used), 'x', format('%.0f', before),
    'c', format('%.0f', counted), 'a', format('%.0f', last))
  call('HDEL', name, 'h')
  -- Its holds come after it. Whoever dies before that is followed by one that looks for them again.
  if account or lastTurn ~= '' then call('HSET', name, 'y', nowText) end
  if account and account.stateText then writeState(account) end
  -- No turn could take in what its settings became meanwhile.
  if wasHeld then redis.pcall('ZADD', string.sub(name, 1, 5) .. 'due', '0', name) end
  return 'OK', format('%.0f', change)
end

local numbers = {}
for i = FIRST_RECORD, #KEYS do
  local first = FIRST_FIELD + (i - FIRST_RECORD) * FIELDS
  for j = first, first + FIELDS - 3 do numbers[j] = tonumber(ARGV[j]) end
end

local meta, token = passFence(KEYS[1], ARGV[1], 'epoch')
if not meta or not token and meta[3] ~= epoch then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local answer = { 'OK', nowText }
for i = FIRST_RECORD, #KEYS do
  local first = FIRST_FIELD + (i - FIRST_RECORD) * FIELDS
  answer[#answer + 1], answer[#answer + 2] = settle(KEYS[i], ARGV[first + FIELDS - 2], ARGV[first + FIELDS - 1],
    unpack(numbers, first, first + FIELDS - 3))
end
return answer
