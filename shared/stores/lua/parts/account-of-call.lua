-- What a verification does to an account: opens it, turns it where something is due, and writes it or notes it in the batch.
-- makeTurns of verify.lua makes the functions of turns and holds, when they are needed first.
--
-- Needs   names time lookup batch hot-account
-- Defines open(billingKey, usedText, sequence, asked)    the account as a call has to see it, and its last number. One that turned has
--                                  its lines, with that number
--         cross(account, billingKey, event, byLimits)    of a call that crosses alerts, whose event has this epoch and sequence: what the
--                                  event tells of them, and the line of the turn behind it, if there is one. byLimits: what crossedByLimits
--                                  gave
--         noteTurn(tag, account, lines)                  notes lines of an account in a batch
--         writeTurn(tag, account, sequenceField, sequence)   writes that an account turned where its call takes nothing
--         appendLines(outbox, lines, event, mark)        appends an event between these lines and one behind it
--         writeState(account)      as the part open-account; and the counters of limits that ended holds have corrected
--         holdTurns()              what makeTurns gives
local turns

-- Brings an account up to date with what is due, and with its settings.
local function turn(account, billingKey, epoch, sequence)
  turns = turns or makeTurns()
  local turned, holding = batch and batch.turned[billingKey], batch and batch.holding[billingKey]
  account.holdWrites = account.holdWrites or holding and holding.holdWrites
  account.epoch, account.sequence = epoch, sequence
  local record = call('HMGET', billingKey, 't', 's')
  local changed, whole = turns.turnAccount(account, billingKey, turned and turned.stateText or record[1], record[2])
  if account.holdWrites.corrections then
    -- The limits of this call are judged after what its turn gives back to them.
    account.counters = turns.correctedCounters(account, batch and batch.counters)
  end
  return changed, whole
end

local function open(billingKey, usedText, sequence, asked)
  local account, settings = openAccount(usedText), asked.limitMicros
  -- Plain settings have no version in a lookup.
  local isCurrent = account.settings == settings and not (asked.isNew and byte(settings) ~= 64)
  if isCurrent and nowMs < account.untilMs then return account, sequence end
  local wasPlain = account.isNew
  local changed, whole = turn(account, billingKey, asked.epoch, sequence)
  account.isUnfinished = not whole
  if not changed then return account, sequence end
  turns.tellTurn(account)
  -- What stays a number says nothing new where its call takes nothing.
  account.isTold = account.hasTurned and not (wasPlain and account.isPlain)
  return account, account.sequence
end

local function cross(account, billingKey, event, byLimits)
  if not account.turn then turn(account, billingKey, event.epoch, event.sequence) end
  for i = 1, byLimits and #byLimits or 0, 2 do
    local alert = account.turn.alerts[byLimits[i]]
    if alert then account.crossed = (account.crossed or '') .. alert.text .. byLimits[i + 1] .. '\0' end
  end
  -- What a limit counts changes no state.
  if account.used < account.alertAt then return turns.crossedPart(account) end
  turns.watchAlerts(account)
  local crossed, before = turns.crossedPart(account), account.lines
  -- The line before the event has told it.
  account.told, account.lines, account.sequence = {}, {}, event.sequence
  turns.tellTurn(account)
  local mark = account.lines[1]
  account.lines = before
  return crossed, mark
end

local function noteTurn(tag, account, lines)
  local parts, at = batch.parts, batch.length
  parts[at + 1], parts[at + 2] = concat(lines, '\n'), '\n'
  batch.length, batch.events, batch.tag = at + 2, batch.events + #lines, batch.tag or tag
  batch.turned[account.billingKey], batch.holding[account.billingKey] = account, account
  for name, counters in pairs(account.counters or {}) do batch.counters[name] = counters end
  account.counters = nil
end

local function writeState(account)
  turns.writeState(account)
  for _, counters in pairs(account.counters or {}) do
    if counters.changed then turns.write(counters, call) end
    counters.changed = false
  end
end

-- Redis may have no memory for it: then the next call turns it.
local function writeTurn(tag, account, sequenceField, sequence)
  local usedText, sequenceText = usedTextOf(account), format('%d', sequence)
  if batch then
    noteTurn(tag, account, account.lines)
    noteBalance(account.billingKey, usedText, sequenceField, sequenceText)
  elseif pcall(turns.appendLines, tag .. 'outbox', account.lines) then
    call('HSET', account.billingKey, 'u', usedText, sequenceField, sequenceText)
    writeState(account)
  end
end

local function appendLines(outbox, lines, event, mark)
  lines[#lines + 1], lines[#lines + 2] = event, mark
  turns.appendLines(outbox, lines)
end

local function holdTurns()
  turns = turns or makeTurns()
  return turns
end
