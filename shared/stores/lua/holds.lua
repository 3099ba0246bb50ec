-- uses: names time build records used hot-account hold-line alerts-mark limits limits-of-holds holds account turns open-account
-- Takes in what the books have of some holds of a record and this Redis has lost: a hold that is still open there comes back, one
-- that was settled there is closed, and one that was settled more than once, there or here, is corrected: the first capture stands,
-- else a charge. Of each hold it keeps what it has taken in, so repeating the call changes nothing, and a sum of fewer lines never
-- replaces one of more. The costs of those lines are settled before (settle.lua).
--
-- KEYS  1 meta, 2 billing record, 3 outbox
-- ARGV  1 fence: run id of the open shard, or "build:<token>" of its builder
--       2 not after: Redis time in ms
--       3 epoch: the lines are of epochs below it
--       and for each hold:
--       1 its 26 characters
--       2 how many these lines are
--       3 what they change in what is held, in micro-credits
--       4 their cost in micro-credits
--       5 how they end it: captured, late, corrected (captured late, after a charge), charged, released or expired; "" not at all
--       6 what was captured or charged by that, in micro-credits; of "corrected" what that changed in the charge
--       7 "1" where the books have the line that opened it
--       8 the hold as the last of its lines has it
-- Gives {"OK", now in ms}
--       {"AGAIN", now}             more of the account fell due than one call does
--       {"UNSETTLED", now, error}  its balance is not known here
--       {"CLOSED" | "LATE", now}
local FIRST, FIELDS = 4, 8
local epoch = ARGV[3]

-- How a hold has ended for good, of what the books and this Redis have: { how, usage, late }; nil of an open one.
local function standingEnd(known, here, booked)
  local how, usage = booked.how, booked.micros
  if how == 'captured' or how == 'late' then return { how = 'captured', usage = usage, late = how == 'late' and '1' or '' } end
  if how == 'corrected' then
    local charged = here and here.how == 'charged' and here.usage or known.micros
    return { how = 'captured', usage = charged + usage, late = '1' }
  end
  if here and here.how == 'captured' then return here end
  if how == 'charged' then return { how = how, usage = usage, late = '' } end
  if here or how == '' then return here end
  return { how = how, usage = 0, late = '' }
end

local function close(account, hold, ending)
  closeHold(account, hold, ending.how, ending.usage, ending.late)
  if hold.turn < account.turn.boundary then settlePins(account, hold.micros, ending.usage) end
end

local function reopen(account, hold)
  -- Turns after it that this Redis has lost are taken back: none of them has pinned anything for it.
  hold.turn = math.min(hold.turn, account.turn.number)
  account.held = account.held + hold.micros
  correctLater(account, hold, { limits = hold.limits, held = 0, isLost = true }, hold.micros)
  putHold(account, hold)
end

-- An extension that Redis has lost holds.
local function extend(account, hold, endsAtMs)
  if endsAtMs <= hold.endsAtMs then return end
  hold.endsAtMs = endsAtMs
  putHold(account, hold)
end

-- Puts the lines right: they add up to what is held of the hold after it, and bill it once.
local function correct(account, hold, change, cost)
  if change < 0 then holdLine(account, hold, { kind = 'release', cost = 0, micros = -change, detail = 'lost' }) end
  if cost > 0 then giveBack(account, cost) end
  if change > 0 or cost > 0 then
    holdLine(account, hold, { kind = 'correction', cost = -cost, micros = math.max(0, change), detail = 'lost' })
  end
end

-- Settles once what is no longer open here. `own`: what its lines here have cost; gives that after it.
local function settleEnded(account, known, here, ending, booked, own)
  local twice = math.max(0, booked.cost + own - ending.usage)
  correct(account, known, -booked.change, twice)
  if here and here.usage ~= ending.usage then
    correctLater(account, known, { limits = here.limits, held = here.usage }, ending.usage)
  end
  local limits = here and here.limits or ''
  -- What its capture, by its id alone, could not take from limits.
  if booked.change > 0 and booked.how == '' and ending.how == 'captured' then
    correctLater(account, known, { limits = known.limits, held = 0, isLost = true }, ending.usage)
    limits = known.limits
  end
  keepSettled(account, known.id, {
    how = ending.how, usage = ending.usage, endsAtMs = known.endsAtMs, late = ending.late, limits = limits,
  }, account.epoch)
  return own - twice
end

-- Gives whether it has changed anything. What it has taken in is noted in marks: how many lines, what they changed in what is held, what
-- the hold's lines here have cost since, and the usage that it was settled with.
local function takeIn(account, booked, marks)
  local mark = call('HGET', account.againKey, booked.id) or '0 0 0 0'
  local lines, change, own, usage = string.match(mark, '^(%d+) (%-?%d+) (%-?%d+) (%d+)$')
  if booked.lines <= tonumber(lines) then return false end
  local hold, here = readHold(account, booked.id), settledHold(account, booked.id)
  -- Too old for the books to know all of it.
  if not (hold or here or booked.isWhole or lines ~= '0') then return false end
  local known = hold or unpackHold(booked.id, booked.text)
  local ending, isBack = standingEnd(known, here, booked), false
  local changeBefore = tonumber(change)
  own = tonumber(own) + (here and here.usage - tonumber(usage) or 0)
  change, booked.change = booked.change, booked.change - changeBefore
  if hold then
    -- Its lines add up to it, but for those that are taken in now.
    local twice = ending and math.max(0, booked.cost - ending.usage) or 0
    correct(account, known, (ending and 0 or hold.micros) - hold.micros - booked.change, twice)
    if ending then close(account, hold, ending)
    else extend(account, hold, unpackHold(booked.id, booked.text).endsAtMs) end
    own = -twice
  elseif ending then
    own = settleEnded(account, known, here, ending, booked, own)
  elseif booked.change > 0 then
    reopen(account, known)
    isBack = true
  end
  marks[booked.id] = format('%d %d %d %d', booked.lines, change, own, ending and ending.usage or 0)
  return hold ~= nil or ending ~= nil or isBack
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
      id = ARGV[i], lines = tonumber(ARGV[i + 1]), change = tonumber(ARGV[i + 2]), cost = tonumber(ARGV[i + 3]), how = ARGV[i + 4],
      micros = tonumber(ARGV[i + 5]), isWhole = ARGV[i + 6] ~= '', text = ARGV[i + 7],
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
