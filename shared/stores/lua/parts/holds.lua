-- Holds of a billing record: a hash of the open ones, a sorted set of when they end, and of each that was settled a text that
-- lives for 48 h. Nothing is written before the lines that tell it: what a script does to holds waits in account.holdWrites.
--
-- Needs   names time hot-account hold-line limits limits-of-holds
-- Defines nameHolds(account, billingKey)  where its holds are
--         readHold(account, id)           { id, micros, endsAtMs, onExpiry, turn, openedMs, epoch, keyId, usageName, limits }, nil unless
--                                         it is open. limits: what noteLimits gave
--         packHold(hold)                  the text of it, which its lines have too
--         unpackHold(id, text)            the hold of such a text
--         putHold(account, hold)          opens it, or gives it another end; held is the caller's
--         closeHold(account, hold, how, usage, late)   takes an open one from held, and remembers it as settled
--         correctLater(account, hold, noted, usage)   notes that what a hold took from limits is corrected to the usage: { limits, held,
--                                         isLost }, as correctLimits has them
--         correctedCounters(account, kept)   counters after these corrections, as correctLimits has them; with it they are done, and alerts
--                                         that they crossed are noted in account.crossed
--         settledHold(account, id)        { how, usage, endsAtMs, late, limits } of a settled one; how is captured, charged, released or
--                                         expired; nil of an unknown one
--         keepSettled(account, id, settled)     remembers it
--         holdLine(account, hold, line)   adds a line of a hold, with the next number: { kind, cost, micros, detail };
--                                         hold.trace is what the call that settles it begins its line with
--         openHolds(account)              how many are open
--         nextHoldEnd(account)            when the first one ends, in ms; NEVER without one
--         holdsDue(account, atMs, most)   ids of those that have ended by then, the first to end first
--         writeHolds(account)             writes what waits
local SETTLED_SECONDS = '172800'

local function nameHolds(account, billingKey)
  local tag, place = string.sub(billingKey, 1, 5), string.sub(billingKey, 8)
  account.tag, account.holdsKey, account.endsKey = tag, tag .. 'o:' .. place, tag .. 'e:' .. place
  -- ended: how many of the first to end are no longer open; firstEndMs: of those that were opened here.
  account.holdWrites = account.holdWrites or { ended = 0, closed = {}, opened = {}, settled = {}, firstEndMs = NEVER }
end

local function unpackHold(id, text)
  local micros, endsAtMs, onExpiry, turn, openedMs, epoch, keyId, usageName, limitsAt = unpackTexts('ssssssss', text)
  return {
    id = id, micros = tonumber(micros), endsAtMs = tonumber(endsAtMs), onExpiry = onExpiry, turn = tonumber(turn),
    openedMs = openedMs, epoch = epoch, keyId = keyId, usageName = usageName,
    limits = string.sub(text, limitsAt),
  }
end

local function readHold(account, id)
  if account.holdWrites.closed[id] then return nil end
  local text = call('HGET', account.holdsKey, id)
  return text and unpackHold(id, text) or nil
end

local function packHold(hold)
  return format('%d\0%d\0%s\0%d\0%s\0%s\0%s\0%s\0%s', hold.micros, hold.endsAtMs, hold.onExpiry, hold.turn, hold.openedMs,
    hold.epoch, hold.keyId, hold.usageName, hold.limits or '')
end

local function putHold(account, hold)
  local writes = account.holdWrites
  writes.opened[#writes.opened + 1] = hold
  writes.firstEndMs = math.min(writes.firstEndMs, hold.endsAtMs)
  account.untilMs = math.min(account.untilMs, hold.endsAtMs)
end

local function keepSettled(account, id, settled)
  account.holdWrites.settled[id] = settled
end

local function correctLater(account, hold, noted, usage)
  if noted.limits == '' or noted.held == usage then return end
  local corrections = account.holdWrites.corrections or {}
  corrections[#corrections + 1] = {
    keyId = hold.keyId, limits = noted.limits, held = noted.held, used = usage, isLost = noted.isLost,
  }
  account.holdWrites.corrections = corrections
end

local function correctedCounters(account, kept)
  local own, place = {}, string.sub(account.billingKey, 8)
  for _, one in ipairs(account.holdWrites.corrections) do
    correctLimits(one.limits, { account.tag .. 'l:' .. one.keyId, account.tag .. 'l:' .. place }, one, own, kept)
    for _, crossed in ipairs(one.crossed) do
      local alert = account.turn.alerts[crossed.place]
      -- Settings may have changed since the hold.
      if alert and alert.kind == 'limit' and alert.value == crossed.percent then
        account.crossed = (account.crossed or '') .. alert.text .. crossed.armed .. '\0'
      end
    end
  end
  account.holdWrites.corrections = nil
  return own
end

local function closeHold(account, hold, how, usage, late)
  account.holdWrites.closed[hold.id] = true
  account.held = account.held - hold.micros
  correctLater(account, hold, { limits = hold.limits, held = hold.micros }, usage)
  -- What is captured after its end is corrected once more, and what the books have as captured, too.
  local limits = how ~= 'released' and hold.limits or ''
  keepSettled(account, hold.id, {
    how = how, usage = usage, endsAtMs = hold.endsAtMs, late = late or '', limits = limits,
  })
end

local function settledHold(account, id)
  local here = account.holdWrites.settled[id]
  if here then return here end
  local record = call('GET', account.tag .. 'z:' .. id)
  if not record then return nil end
  local how, usage, endsAtMs, late, limitsAt = unpackTexts('ssss', record)
  return {
    how = how, usage = tonumber(usage), endsAtMs = tonumber(endsAtMs), late = late, limits = string.sub(record, limitsAt),
  }
end

local function holdLine(account, hold, line)
  account.sequence = account.sequence + 1
  account.usedText, account.heldText = format('%d', account.used), format('%d', account.held)
  account.sequenceText = format('%d', account.sequence)
  account.lines[#account.lines + 1] = lineOfHold(account, {
    kind = line.kind, id = hold.id, keyId = hold.keyId, usageName = hold.usageName, cost = format('%d', line.cost),
    micros = format('%d', line.micros), detail = line.detail, trace = hold.trace,
  })
end

local function openHolds(account)
  local closed = 0
  for _ in pairs(account.holdWrites.closed) do closed = closed + 1 end
  return call('ZCARD', account.endsKey) + #account.holdWrites.opened - closed
end

local function nextHoldEnd(account)
  local writes = account.holdWrites
  local place = format('%d', writes.ended)
  return math.min(tonumber(call('ZRANGE', account.endsKey, place, place, 'WITHSCORES')[2] or NEVER), writes.firstEndMs)
end

local function holdsDue(account, atMs, most)
  local from, to = format('%d', account.holdWrites.ended), format('%d', most)
  return call('ZRANGE', account.endsKey, '-inf', format('%d', atMs), 'BYSCORE', 'LIMIT', from, to)
end

local function writeHolds(account)
  local writes = account.holdWrites
  -- Accounts of a batch that are the same record's share them.
  if writes.areWritten then return end
  writes.areWritten = true
  for id in pairs(writes.closed) do
    call('HDEL', account.holdsKey, id)
    call('ZREM', account.endsKey, id)
  end
  for _, hold in ipairs(writes.opened) do
    call('HSET', account.holdsKey, hold.id, packHold(hold))
    call('ZADD', account.endsKey, format('%d', hold.endsAtMs), hold.id)
  end
  for id, settled in pairs(writes.settled) do
    call('SETEX', account.tag .. 'z:' .. id, SETTLED_SECONDS,
      format('%s\0%d\0%d\0%s\0%s', settled.how, settled.usage, settled.endsAtMs, settled.late, settled.limits or ''))
  end
  for _, counters in pairs(writes.corrections and correctedCounters(account) or account.corrected or {}) do
    if counters.changed then writeCounters(counters, call) end
  end
end
