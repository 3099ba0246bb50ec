-- What a verification does to an account: brings it up to date where something is due, draws or holds, and writes it or notes it in the
-- batch. makeMoments of verify.lua makes the functions of moments and holds, when they are needed first.
--
-- Needs   names time lookup batch account
-- Defines open(billingKey, usedText, sequence, asked)    the account as a call has to see it: { limitMicros, isNew, epoch, isHold }; isUnfinished
--                                  where more fell due than one script does
--         readAsked(text, keyId, epoch)   the hold that a call asks for, as it sends it in the place of its cost
--         mayHold(account)         whether the record has room for one more
--         openHold(account, hold, limits)   opens it; limits are those that it will be taken from, where it has any. Gives what the call is
--                                  answered of it, and what its event's JSON has besides
--         addEvent(account, event, byLimits)   what a call that took the credits says: its cost, and start, end (behind the balance) of the JSON of
--                                  its event; byLimits: what crossedByLimits gave
--         writeNow(account)        writes it
--         write(account)           writes it with its lines, or notes both in the batch
local MOST_HOLDS = 10000
local moments

-- The account is known to the batch once all that was due is done.
local function bringUpToDate(account)
  moments = moments or makeMoments()
  account.keptCounters = batch and batch.counters
  account.isUnfinished = not moments.bringUpToDate(account)
  moments.tellMoment(account)
end

local function open(billingKey, usedText, sequence, asked)
  local account = batch and batch.accounts[billingKey] or openAccount(usedText, billingKey, asked.epoch, sequence)
  -- Plain settings have no version in a lookup.
  local isCurrent = account.settings == asked.limitMicros and not (asked.isNew and byte(asked.limitMicros) ~= 64)
  if account.isUnfinished or not account.hasState and not (isCurrent and nowMs < account.untilMs) then bringUpToDate(account) end
  return account
end

local function readAsked(text, keyId, epoch)
  local micros, forMs, onExpiry, id, usageName = string.match(text, '^@(%d+)\31(%d+)\31(%l+)\31([^\31]+)\31(.*)$')
  return {
    id = id, micros = tonumber(micros), endsAtMs = nowMs + tonumber(forMs), onExpiry = onExpiry, openedMs = nowText,
    epoch = epoch, keyId = keyId, usageName = usageName,
  }
end

local function mayHold(account)
  moments = moments or makeMoments()
  moments.nameHolds(account)
  return moments.openHolds(account) < MOST_HOLDS
end

local function openHold(account, hold, limits)
  hold.limits = limits and moments.noteLimits(limits) or ''
  hold.owned = reserve(account, hold.micros)
  moments.putHold(account, hold)
  return format(' %s %s %d %s', hold.id, hold.openedMs, hold.endsAtMs, hold.epoch),
    format(',"o":"%s","m":%d,"f":', hold.id, hold.micros) .. cjson.encode(moments.packHold(hold))
end

local function addEvent(account, event, byLimits)
  account.sequence = account.sequence + 1
  local crossed = ''
  if byLimits or account.used >= account.alertAt then
    moments = moments or makeMoments()
    if not account.hasState then moments.bringUpToDate(account) end
    for i = 1, byLimits and #byLimits or 0, 2 do
      local alert = account.alerts[byLimits[i]]
      if alert then account.crossed = (account.crossed or '') .. alert.text .. byLimits[i + 1] .. '\0' end
    end
    moments.watchAlerts(account)
    crossed = moments.crossedPart(account)
    moments.settleLimits(account)
  end
  account.lines[#account.lines + 1] = event.start .. ',"u":' .. format('%d', account.used) .. ',"s":' .. format('%d', account.sequence) ..
    ',"e":' .. account.epoch .. heldPart(account) .. event.more .. changesPart(account, event.cost) .. crossed .. '}'
end

local function writeNow(account)
  if account.hasState or account.holdWrites then moments.writeAccount(account) else writeHot(account) end
end

local function write(account)
  local billingKey, lines = account.billingKey, account.lines
  account.lines = {}
  if batch then
    batch.accounts[billingKey] = account
    for name, counters in pairs(account.counters or {}) do batch.counters[name] = counters end
    account.counters = nil
    if #lines > 0 then noteLines(sub(billingKey, 1, 5), lines) end
    return
  end
  if #lines > 0 then appendLines(sub(billingKey, 1, 5) .. 'outbox', lines) end
  writeNow(account)
end
