-- The line that tells what becomes of a hold.
--
-- Needs   names time
-- Defines lineOfHold(account, told)   its JSON. What the account is after it: billingKey, billingId, epoch, and as texts usedText,
--                                     heldText and sequenceText. What is told: kind, id of the hold, keyId, usageName, as texts cost and micros;
--                                     detail, nil without one; and trace, nil or '' of a line that no traced call made
-- A text that becomes JSON costs as much as the rest of a line, and most holds of a script have the same usage name.
local usageNames = {}

local function lineOfHold(account, told)
  local name = usageNames[told.usageName] or cjson.encode(told.usageName)
  usageNames[told.usageName] = name
  local epoch, sequence = account.epoch, account.sequenceText
  local workspaceId = string.match(account.billingKey, '^[^:]*', 8)
  local id = string.sub(redis.sha1hex(told.id .. ' ' .. epoch .. ' ' .. sequence), 1, 25)
  return '{"x":"' .. told.kind .. '","i":"evt_0' .. id .. '",' .. (told.trace or '') .. '"r":"","c":' .. told.cost ..
    ',"n":' .. name .. ',"t":' .. nowText .. ',"k":"' .. told.keyId .. '","b":"' .. account.billingId .. '","v":"' .. workspaceId .. '","u":' .. account.usedText ..
    ',"s":' .. sequence .. ',"e":' .. epoch .. (account.heldText ~= '0' and ',"h":' .. account.heldText or '') .. ',"o":"' .. told.id .. '","m":' .. told.micros ..
    (told.detail and ',"g":' .. cjson.encode(told.detail) or '') .. '}'
end
