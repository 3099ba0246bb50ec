-- Holds of a billing record: a hash of the open ones, a sorted set of when they end, and of each that was settled a text that
-- lives for 48 h. Nothing is written before the lines that tell it: what a script does to holds waits in account.holdWrites.
--
-- Defines nameHolds(account)              where its holds are
--         readHold(account, id)           { id, micros, endsAtMs, onExpiry, owned, openedMs, epoch, keyId, usageName, limits }, nil unless
--                                         it is open. owned: what reserve gave; limits: what noteLimits gave
--         unpackHold(id, text)            the hold of such a text
--         putHold(account, hold)          opens it, or gives it another end, and makes hold.text, which its lines have too; held is the
--                                         caller's
--         closeHold(account, hold, how, usage)   takes an open one from held, uses credits, and remembers it as settled
--         correctLater(account, hold, noted, usage)   notes that what a hold took from limits is corrected to the usage: { limits, held },
--                                         as correctLimits has them
--         correctCounters(account)        does these corrections in account.counters, and notes alerts that they crossed in
--                                         account.crossed
--         settledHold(account, id)        { how, usage, endsAtMs, late, limits } of a settled one; how is captured, charged, released or
--                                         expired; nil of an unknown one
--         holdLine(account, hold, line)   adds a line of a hold, with the next number: { kind, cost, micros, detail, more };
--                                         more is what its JSON has besides, hold.trace what the call that settles it begins its line with
--         openHolds(account)              how many are open
--         nextHoldEnd(account)            when the first one ends, in ms; NEVER without one
--         holdsDue(account, atMs, most)   ids of those that have ended by then, the first to end first
--         writeHolds(account)             writes what waits
local SETTLED_SECONDS = '172800'
-- A text that becomes JSON costs as much as the rest of a line, and most holds have the same few usage names.
local nameAsJson = remember(cjson.encode)

local function nameHolds(account)
  local tag, place = string.sub(account.billingKey, 1, 5), string.sub(account.billingKey, 8)
  account.tag, account.holdsKey, account.endsKey = tag, tag .. 'o:' .. place, tag .. 'e:' .. place
  -- ended: how many of the first to end are no longer open; firstEndMs: of those that were opened here.
  account.holdWrites = account.holdWrites or { ended = 0, read = {}, closed = {}, opened = {}, settled = {}, firstEndMs = NEVER }
end

local function unpackHold(id, text)
  local micros, endsAtMs, onExpiry, owned, openedMs, epoch, keyId, usageName, limitsAt = unpackTexts('ssssssss', text)
  return {
    id = id, micros = tonumber(micros) or error('a hold is damaged'), endsAtMs = tonumber(endsAtMs), onExpiry = onExpiry, owned = owned,
    openedMs = openedMs, epoch = epoch, keyId = keyId, usageName = usageName, limits = string.sub(text, limitsAt),
  }
end

local function readHold(account, id)
  local writes = account.holdWrites
  if writes.closed[id] or writes.read[id] then return not writes.closed[id] and writes.read[id] or nil end
  local text = call('HGET', account.holdsKey, id)
  if not text then return nil end
  writes.read[id] = unpackHold(id, text)
  return writes.read[id]
end

local function putHold(account, hold)
  local writes = account.holdWrites
  hold.text = format('%d\0%d\0%s\0%s\0%s\0%s\0%s\0%s\0%s', hold.micros, hold.endsAtMs, hold.onExpiry, hold.owned, hold.openedMs,
    hold.epoch, hold.keyId, hold.usageName, hold.limits or '')
  writes.opened[#writes.opened + 1] = hold
  writes.firstEndMs = min(writes.firstEndMs, hold.endsAtMs)
  account.untilMs = min(account.untilMs, hold.endsAtMs)
end

local function correctLater(account, hold, noted, usage)
  if noted.limits == '' or noted.held == usage then return end
  local corrections = account.holdWrites.corrections or {}
  corrections[#corrections + 1] = { keyId = hold.keyId, limits = noted.limits, held = noted.held, used = usage }
  account.holdWrites.corrections = corrections
end

local function correctCounters(account)
  local place = string.sub(account.billingKey, 8)
  for _, one in ipairs(account.holdWrites.corrections or {}) do
    correctLimits(one.limits, { account.tag .. 'l:' .. one.keyId, account.tag .. 'l:' .. place }, one, account.counters)
    for _, crossed in ipairs(one.crossed) do
      local alert = account.alerts[crossed.place]
      -- Settings may have changed since the hold.
      if alert and alert.kind == 'limit' and alert.value == crossed.percent then
        account.crossed = (account.crossed or '') .. alert.text .. crossed.armed .. '\0'
      end
    end
  end
  account.holdWrites.corrections = nil
end

local function closeHold(account, hold, how, usage)
  account.holdWrites.closed[hold.id] = true
  account.held = account.held - hold.micros
  settleOwned(account, hold.owned, usage)
  correctLater(account, hold, { limits = hold.limits, held = hold.micros }, usage)
  -- What is captured after its end is corrected once more, and what the books have as captured, too.
  local limits = how ~= 'released' and hold.limits or ''
  account.holdWrites.settled[hold.id] = { how = how, usage = usage, endsAtMs = hold.endsAtMs, late = '', limits = limits }
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
  local epoch, sequence = account.epoch, format('%d', account.sequence)
  local id = string.sub(redis.sha1hex(hold.id .. ' ' .. epoch .. ' ' .. sequence), 1, 25)
  account.lines[#account.lines + 1] = '{"x":"' .. line.kind .. '","i":"evt_0' .. id .. '",' .. (hold.trace or '') .. '"r":"","c":' ..
    format('%d', line.cost) .. ',"n":' .. nameAsJson(hold.usageName) .. ',"t":' .. nowText .. ',"k":"' .. hold.keyId .. '","b":"' .. account.billingId .. '","v":"' ..
    string.match(account.billingKey, '^[^:]*', 8) .. '","u":' .. format('%d', account.used) .. ',"s":' .. sequence .. ',"e":' .. epoch ..
    heldPart(account) .. ',"o":"' .. hold.id .. '","m":' .. format('%d', line.micros) ..
    (line.detail and ',"f":' .. cjson.encode(line.detail) or '') .. changesPart(account, line.cost) .. (line.more or '') .. '}'
end

local function openHolds(account)
  local closed = 0
  for _ in pairs(account.holdWrites.closed) do closed = closed + 1 end
  return call('ZCARD', account.endsKey) + #account.holdWrites.opened - closed
end

local function nextHoldEnd(account)
  local writes = account.holdWrites
  local place = format('%d', writes.ended)
  return min(tonumber(call('ZRANGE', account.endsKey, place, place, 'WITHSCORES')[2] or NEVER), writes.firstEndMs)
end

local function holdsDue(account, atMs, most)
  local from, to = format('%d', account.holdWrites.ended), format('%d', most)
  return call('ZRANGE', account.endsKey, '-inf', format('%d', atMs), 'BYSCORE', 'LIMIT', from, to)
end

local function writeHolds(account)
  local writes = account.holdWrites
  for _, hold in ipairs(writes.opened) do
    call('HSET', account.holdsKey, hold.id, hold.text)
    call('ZADD', account.endsKey, format('%d', hold.endsAtMs), hold.id)
  end
  -- After those: one that was extended may be closed since.
  for id in pairs(writes.closed) do
    call('HDEL', account.holdsKey, id)
    call('ZREM', account.endsKey, id)
  end
  for id, settled in pairs(writes.settled) do
    call('SETEX', account.tag .. 'z:' .. id, SETTLED_SECONDS,
      format('%s\0%d\0%d\0%s\0%s', settled.how, settled.usage, settled.endsAtMs, settled.late, settled.limits or ''))
  end
end
