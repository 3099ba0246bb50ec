-- uses: names time build records used hot-account hold-line alerts-mark limits limits-of-holds holds account turns open-account
-- Takes in what the books have of some holds of a record and this Redis has lost: a hold that is still open there comes back, one
-- that was settled there is closed, and one that was settled here, too, is corrected. Of each hold it keeps what it has taken in,
-- so repeating the call changes nothing. The costs of those lines are settled before (settle.lua).
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 epoch: the lines are of epochs below it
--       and for each hold:
--       1 its 26 characters
--       2 what these lines change in what is held, in micro-credits
--       3 their cost in micro-credits
--       4 how they end it: captured, charged, released or expired; "" not at all
--       5 the hold as the last of its lines has it; "" where none has
-- Gives {"OK", now in ms}
--       {"AGAIN", now}             more of the account fell due than one call does
--       {"UNSETTLED", now, error}  its balance is not known here
--       {"CLOSED" | "LATE", now}
local FIRST, FIELDS = 4, 5
local epoch = ARGV[3]

-- What captures here and in the books have to give back, so that the first of them stands, and a charge does not beside a capture.
local function costTwice(here, booked)
  if not here or booked.how ~= 'captured' and booked.how ~= 'charged' then return 0 end
  if here.how == 'captured' and booked.how == 'charged' then return booked.cost end
  return (here.how == 'captured' or here.how == 'charged') and here.usage or 0
end

local function close(account, hold, booked)
  closeHold(account, hold, booked.how, booked.cost)
  -- What was used is counted with all that the books alone know (raise.lua).
  correctLater(account, hold, { limits = hold.limits, held = booked.cost }, 0)
  if hold.turn < account.turn.boundary then settlePins(account, hold.micros, booked.cost) end
end

local function reopen(account, hold)
  -- Turns after it that this Redis has lost are taken back: none of them has pinned anything for it.
  hold.turn = math.min(hold.turn, account.turn.number)
  account.held = account.held + hold.micros
  correctLater(account, hold, { limits = hold.limits, held = 0, isLost = true }, hold.micros)
  putHold(account, hold)
end

-- Puts the lines right: they add up to what is held of the hold after it, and bill it once.
local function correct(account, hold, change, cost)
  if change < 0 then holdLine(account, hold, { kind = 'release', cost = 0, micros = -change, detail = 'lost' }) end
  if cost > 0 then giveBack(account, cost) end
  if change > 0 or cost > 0 then
    holdLine(account, hold, { kind = 'correction', cost = -cost, micros = math.max(0, change) })
  end
end

-- Gives whether it has changed anything. What it has taken in is noted in marks.
local function takeIn(account, booked, marks)
  local taken = call('HGET', account.againKey, booked.id)
  local mark = format('%d %d %s', booked.change, booked.cost, booked.how)
  if taken == mark then return false end
  local changeBefore, howBefore = string.match(taken or '0 0 ', '^(%-?%d+) %-?%d+ (%l*)$')
  local change = booked.change - tonumber(changeBefore)
  local hold, here, ends = readHold(account, booked.id), settledHold(account, booked.id), booked.how ~= ''
  local known = hold or booked.text ~= '' and unpackHold(booked.id, booked.text)
  marks[booked.id] = mark
  if not known then return false end
  if hold then
    -- Its lines add up to it, but for those that are taken in now.
    correct(account, known, (ends and 0 or hold.micros) - hold.micros - change, 0)
    if ends then close(account, hold, booked) end
  elseif here or ends then
    local cost = howBefore == booked.how and 0 or costTwice(here, booked)
    correct(account, known, -change, cost)
    if cost > 0 then correctLater(account, known, { limits = here.limits, held = cost }, 0) end
    -- What its capture, by its id alone, could not take from limits.
    if change > 0 and not ends and here.how == 'captured' then
      correctLater(account, known, { limits = known.limits, held = 0, isLost = true }, here.usage)
      here.limits = known.limits
      keepSettled(account, booked.id, here, account.epoch)
    end
    if ends and not (here and here.how == 'captured' and booked.how ~= 'captured') then
      local settled = { how = booked.how, usage = booked.cost, endsAtMs = known.endsAtMs, late = '' }
      keepSettled(account, booked.id, settled, account.epoch)
    end
  elseif change > 0 then
    reopen(account, known)
  else return false end
  return true
end

local function settle()
  local record = call('HMGET', KEYS[2], 's', 't')
  local sequenceField = 'n' .. epoch
  local usedText, used, sequence = readUsed(KEYS[2], sequenceField)
  local account, marks = openAccount(usedText), {}
  account.epoch, account.sequence = epoch, sequence
  local wasPlain = account.isNew
  local changed, whole = turnAccount(account, KEYS[2], record[2], record[1])
  if wasPlain then changed = false end
  for i = FIRST, whole and #ARGV or 0, FIELDS do
    local booked = {
      id = ARGV[i], change = tonumber(ARGV[i + 1]), cost = tonumber(ARGV[i + 2]), how = ARGV[i + 3], text = ARGV[i + 4],
    }
    changed = takeIn(account, booked, marks) or changed
  end
  if changed then
    tellTurn(account)
    appendLines(KEYS[3], account.lines)
    call('HSET', KEYS[2], 'u', usedTextOf(account), sequenceField, format('%d', account.sequence))
    writeState(account)
  end
  for id, mark in pairs(marks) do
    call('HSET', account.againKey, id, mark)
    call('EXPIRE', account.againKey, '691200')
  end
  return whole and 'OK' or 'AGAIN'
end

local meta, token = passFence(KEYS[1], ARGV[1], 'epoch')
if not meta or not token and meta[3] ~= epoch then return { 'CLOSED', nowText } end
if nowMs > tonumber(ARGV[2]) then return { 'LATE', nowText } end
local read, status = pcall(settle)
if read then return { status, nowText } end
return { 'UNSETTLED', nowText, type(status) == 'table' and status.err or tostring(status) }
