-- Captures, releases and extends holds, one at a time.
--
-- Defines readAsked(packedCapture)         what capture.lua is asked: { what, amount, id, known, billingId, told }; told is what the id says
--         needsState(account, asked)       whether the account has to be brought up to date first: what becomes of an open hold where nothing
--                                          is due, and no alert or limit goes by it, asks for none of its state
--         settleHold(account, asked)       decides, and adds the line that tells it; gives status, detail and when the hold ends, as
--                                          capture.lua answers them
local LATE_MS = 86400000

local function readAsked(packedCapture)
  local what, amount, id, epoch, known, billingId, trace, micros, endsAtMs, onExpiry, openedMs, keyId, usageName =
    unpackFields('sssssssssssss', packedCapture)
  local told = {
    id = id, micros = tonumber(micros), endsAtMs = tonumber(endsAtMs), onExpiry = onExpiry, owned = '', openedMs = openedMs,
    epoch = epoch, keyId = keyId, usageName = usageName, trace = trace,
  }
  return { what = what, amount = tonumber(amount), id = id, known = known, billingId = billingId, told = told }
end

local function isTooLate(settled) return nowMs >= settled.endsAtMs + LATE_MS end

-- Its line comes last: what it corrects in limits may cross alerts, and what it uses.
local function tell(account, hold, line)
  local more = ''
  if account.hasState then
    correctCounters(account)
    watchAlerts(account)
    more = crossedPart(account)
  end
  line.more = more
  holdLine(account, hold, line)
end

local function captureOpen(account, hold, usage)
  if account.used + usage > MAX_MICROS then return 'TOO_LARGE' end
  closeHold(account, hold, 'captured', usage)
  cover(account)
  tell(account, hold, { kind = 'capture', cost = usage, micros = hold.micros })
  return 'OK', '', hold.endsAtMs
end

-- After its end: what a charge has taken is corrected, what was released is debited.
local function captureLate(account, hold, usage, settled)
  if isTooLate(settled) then return 'UNKNOWN' end
  local change = usage - settled.usage
  if account.used + change > MAX_MICROS then return 'TOO_LARGE' end
  if account.used + change < 0 then return 'CONFLICT', 'given back' end
  if change < 0 then giveBack(account, -change) else draw(account, change) end
  correctLater(account, hold, { limits = settled.limits, held = settled.usage }, usage)
  account.holdWrites.settled[hold.id] = {
    how = 'captured', usage = usage, endsAtMs = settled.endsAtMs, late = '1', limits = settled.limits,
  }
  if settled.how == 'charged' then tell(account, hold, { kind = 'correction', cost = change, micros = 0 })
  else tell(account, hold, { kind = 'capture', cost = usage, micros = 0, detail = 'late' }) end
  return 'OK', '1', settled.endsAtMs
end

-- What its Redis lost is captured by what its id says.
local function captureLost(account, hold, usage)
  if account.used + usage > MAX_MICROS then return 'TOO_LARGE' end
  local late = nowMs >= hold.endsAtMs and '1' or ''
  draw(account, usage)
  account.holdWrites.settled[hold.id] = { how = 'captured', usage = usage, endsAtMs = hold.endsAtMs, late = late }
  tell(account, hold, { kind = 'capture', cost = usage, micros = 0, detail = late ~= '' and 'late' or nil })
  return 'OK', late, hold.endsAtMs
end

local function releaseLost(account, hold)
  account.holdWrites.settled[hold.id] = { how = 'released', usage = 0, endsAtMs = hold.endsAtMs, late = '' }
  tell(account, hold, { kind = 'release', cost = 0, micros = 0 })
  return 'OK', '', hold.endsAtMs
end

local function extend(account, hold, forMs)
  hold.endsAtMs = nowMs + forMs
  putHold(account, hold)
  tell(account, hold, { kind = 'extension', cost = 0, micros = hold.micros, detail = hold.text })
  return 'OK', '', hold.endsAtMs
end

local function release(account, hold)
  closeHold(account, hold, 'released', 0)
  cover(account)
  tell(account, hold, { kind = 'release', cost = 0, micros = hold.micros })
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

local function needsState(account, asked)
  if account.isNew or nowMs >= account.untilMs or account.kept > 0 or asked.what == 'extend' then return true end
  local hold, usage = readHold(account, asked.id), asked.what == 'capture' and asked.amount or 0
  -- Limits that counted another amount of it are corrected.
  return not hold or account.used + usage >= account.alertAt or hold.limits ~= '' and usage ~= hold.micros
end

local function settleHold(account, asked)
  local what, hold = asked.what, readHold(account, asked.id)
  if hold then
    hold.trace = asked.told.trace
    if what == 'capture' then return captureOpen(account, hold, asked.amount) end
    return (what == 'release' and release or extend)(account, hold, asked.amount)
  end
  local settled = settledHold(account, asked.id)
  if settled then return settleAgain(account, asked, settled) end
  -- Of the epoch under way nothing is lost; a later one is of a Redis that went back.
  if asked.told.epoch == account.epoch or isTooLate(asked.told) then return 'UNKNOWN' end
  if what == 'extend' then return 'CONFLICT', 'lost' end
  return (what == 'capture' and captureLost or releaseLost)(account, asked.told, asked.amount)
end
