-- How verify.lua holds credits.
--
-- Needs   names time hot-account limits limits-of-holds holds
-- Defines readAsked(text, keyId, epoch)   the hold that a call asks for, as it sends it in the place of its cost
--         mayHold(account, billingKey, holding)   whether the record has room for one more; holding is the account of this batch whose
--                                         holds changed last
--         openHold(account, hold, limits) opens it; limits are those that it will be taken from, where it has any. Gives what the call is answered of it, and what its event's JSON has besides
local MOST_HOLDS = 10000

local function readAsked(text, keyId, epoch)
  local micros, forMs, onExpiry, id, usageName = string.match(text, '^@(%d+)\31(%d+)\31(%l+)\31([^\31]+)\31(.*)$')
  return {
    id = id, micros = tonumber(micros), endsAtMs = nowMs + tonumber(forMs), onExpiry = onExpiry, openedMs = nowText,
    epoch = epoch, keyId = keyId, usageName = usageName,
  }
end

local function mayHold(account, billingKey, holding)
  account.holdWrites = account.holdWrites or holding and holding.holdWrites
  account.billingKey = billingKey
  nameHolds(account, billingKey)
  return openHolds(account) < MOST_HOLDS
end

local function openHold(account, hold, limits)
  hold.turn, hold.limits = account.number, limits and noteLimits(limits) or ''
  account.held, account.isPlain = account.held + hold.micros, false
  putHold(account, hold)
  local detail = cjson.encode(packHold(hold))
  return format(' %s %s %d %s %d', hold.id, hold.openedMs, hold.endsAtMs, hold.epoch, hold.turn),
    format(',"o":"%s","m":%d,"g":', hold.id, hold.micros) .. detail
end
