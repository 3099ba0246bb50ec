-- The account of a billing record that has more than one class of credits, or holds (docs/accounts-design.md): what each call
-- compares. Its packed text stands where a plain record has its used credits.
--
-- Needs   names
-- Defines MAX_MICROS, NEVER      the most that a record can have, and an instant that does not come
--         NO_ALERT               more than can be used
--         unpackTexts            struct.unpack
--         readHot(text)          the account of such a text; nil where there is none
--         openAccount(usedText)  the same; where the text is a number, what `turnAccount` makes an account of
--         packHot(account)       that text
--         usedTextOf(account)    the text of the field u: of an account that became plain a number
--         amountsOf(account)     used, held, total and expired, with spaces between
--         heldPart(account)      what an event's JSON has of it beside used, sequence and epoch
local MAX_MICROS, NEVER, NO_ALERT = 9e15, 9e15, 9e15 + 1
local unpackTexts = struct.unpack

local function readHot(text)
  if string.byte(text) ~= 64 then return nil end
  local mark, used, held, total, expired, limit, untilMs, settings, alertAt, number = unpackTexts('ssssssssss', text)
  return {
    used = tonumber(used), held = tonumber(held), total = tonumber(total), expired = tonumber(expired), limit = tonumber(limit),
    untilMs = tonumber(untilMs), settings = settings, alertAt = tonumber(alertAt), number = tonumber(number), told = {},
  }
end

local function openAccount(usedText)
  return readHot(usedText) or { used = tonumber(usedText), held = 0, untilMs = 0, isNew = true }
end

local HOT = '@\0%d\0%d\0%d\0%d\0%d\0%d\0%s\0%d\0%d\0'
local function packHot(account)
  return format(HOT, account.used, account.held, account.total, account.expired, account.limit, account.untilMs,
    account.settings, account.alertAt, account.number)
end

local function usedTextOf(account)
  return account.isPlain and format('%d', account.used) or packHot(account)
end

local function amountsOf(account)
  return format('%d %d %d %d', account.used, account.held, account.total, account.expired)
end

local function heldPart(account)
  return account.held > 0 and format(',"h":%d', account.held) or ''
end
