-- Captures, releases and extends holds one at a time, with all that may be due for their record: what capture.lua does for those that
-- it can't decide together.
--
-- Needs   names time records used hot-account hold-line limits limits-of-holds holds account turns open-account
-- Defines settleAlone(billingKey, packedCapture, epoch)   gives the answer and the record's settings, as capture.lua has them
local LATE_MS = 86400000

-- What is asked for; and, as `told`, what the id says of the hold.
local function readAsked(packedCapture)
  local what, amount, id, epoch, known, eventStart, trace, micros, endsAtMs, onExpiry, turn, openedMs, keyId, usageName =
    unpackFields('ssssssssssssss', packedCapture)
  local told = {
    id = id, micros = tonumber(micros), endsAtMs = tonumber(endsAtMs), onExpiry = onExpiry, turn = tonumber(turn),
    openedMs = openedMs, epoch = epoch, keyId = keyId, usageName = usageName, trace = trace,
  }
  return { what = what, amount = tonumber(amount), id = id, told = told }
end

local function isTooLate(settled) return nowMs >= settled.endsAtMs + LATE_MS end

local function captureOpen(account, hold, usage)
  if account.used + usage > MAX_MICROS then return 'TOO_LARGE' end
  settleHold(account, hold, usage, 'captured')
  holdLine(account, hold, { kind = 'capture', cost = usage, micros = hold.micros })
  return 'OK', '', hold.endsAtMs
end

-- After its end: what a charge has taken is corrected, what was released is debited.
local function captureLate(account, hold, usage, settled)
  if isTooLate(settled) then return 'UNKNOWN' end
  local change, noted = usage - settled.usage, { limits = settled.limits, held = settled.usage }
  if account.used + change > MAX_MICROS then return 'TOO_LARGE' end
  if account.used + change < 0 then return 'CONFLICT', 'given back' end
  if change < 0 then
    giveBack(account, -change)
    account.isChanged = true
  else account.used = account.used + change end
  if settled.how == 'charged' then holdLine(account, hold, { kind = 'correction', cost = change, micros = 0 })
  else holdLine(account, hold, { kind = 'capture', cost = usage, micros = 0, detail = 'late' }) end
  correctLater(account, hold, noted, usage)
  keepSettled(account, hold.id, {
    how = 'captured', usage = usage, endsAtMs = settled.endsAtMs, late = '1', limits = settled.limits,
  })
  return 'OK', '1', settled.endsAtMs
end

local function captureLost(account, hold, usage)
  if account.used + usage > MAX_MICROS then return 'TOO_LARGE' end
  local late = nowMs >= hold.endsAtMs and '1' or ''
  account.used = account.used + usage
  holdLine(account, hold, { kind = 'capture', cost = usage, micros = 0, detail = late ~= '' and 'late' or nil })
  keepSettled(account, hold.id, { how = 'captured', usage = usage, endsAtMs = hold.endsAtMs, late = late })
  return 'OK', late, hold.endsAtMs
end

local function releaseLost(account, hold)
  holdLine(account, hold, { kind = 'release', cost = 0, micros = 0 })
  keepSettled(account, hold.id, { how = 'released', usage = 0, endsAtMs = hold.endsAtMs, late = '' })
  return 'OK', '', hold.endsAtMs
end

local function extend(account, hold, forMs)
  hold.endsAtMs = nowMs + forMs
  putHold(account, hold)
  holdLine(account, hold, { kind = 'extension', cost = 0, micros = hold.micros, detail = packHold(hold) })
  return 'OK', '', hold.endsAtMs
end

local function release(account, hold)
  settleHold(account, hold, 0, 'released')
  holdLine(account, hold, { kind = 'release', cost = 0, micros = hold.micros })
  return 'OK', '', hold.endsAtMs
end

local function settleAgain(account, asked, settled)
  local what, how = asked.what, settled.how
  if what == 'capture' and how == 'captured' and settled.usage == asked.amount then return 'OK', settled.late, settled.endsAtMs end
  if what == 'capture' and (how == 'charged' or how == 'expired') then
    return captureLate(account, asked.told, asked.amount, settled)
  end
  if what == 'release' and (how == 'released' or how == 'expired') then return 'OK', '', settled.endsAtMs end
  return 'CONFLICT', how
end

local function decideAlone(account, asked, epoch)
  local what, hold = asked.what, readHold(account, asked.id)
  if hold then
    hold.trace = asked.told.trace
    if what == 'capture' then return captureOpen(account, hold, asked.amount) end
    return (what == 'release' and release or extend)(account, hold, asked.amount)
  end
  local settled = settledHold(account, asked.id)
  if settled then return settleAgain(account, asked, settled) end
  -- Of the epoch under way nothing is lost; a later one is of a Redis that went back.
  if asked.told.epoch == epoch or isTooLate(asked.told) then return 'UNKNOWN' end
  if what == 'extend' then return 'CONFLICT', 'lost' end
  return (what == 'capture' and captureLost or releaseLost)(account, asked.told, asked.amount)
end

local function settleAlone(billingKey, packedCapture, epoch)
  local record = call('HMGET', billingKey, 's', 't')
  if not record[1] then return 'ABSENT' end
  local sequenceField = 'n' .. epoch
  local usedText, used, sequence = readUsed(billingKey, sequenceField)
  local account = openAccount(usedText)
  account.epoch, account.sequence = epoch, sequence
  local wasPlain = account.isNew
  local changed, whole = turnAccount(account, billingKey, record[2], record[1])
  local status, said, endsAtMs = 'AGAIN', nil, 0
  if whole then status, said, endsAtMs = decideAlone(account, readAsked(packedCapture), epoch) end
  if account.holdWrites.corrections then account.corrected = correctedCounters(account) end
  -- A turn tells the alerts that it crossed.
  if changed or account.isChanged or account.crossed or account.used >= account.alertAt then tellTurn(account) end
  if wasPlain and account.isPlain then
    -- Its turn says what every plain record says.
    account.lines[#account.lines], account.sequence = nil, account.sequence - 1
  end
  if #account.lines > 0 then
    appendLines(string.sub(billingKey, 1, 5) .. 'outbox', account.lines)
    call('HSET', billingKey, 'u', usedTextOf(account), sequenceField, format('%d', account.sequence))
    writeState(account)
  end
  if status ~= 'OK' then return status .. '\31' .. (said or '') end
  return 'OK\31' .. said .. '\31' .. amountsOf(account) .. '\31' .. format('%d', endsAtMs) .. '\31', record[1]
end
