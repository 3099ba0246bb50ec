-- The account of a billing record that has more than one class of credits, or holds (docs/accounts-design.md). Its packed text stands
-- where a plain record has its used credits. A draw is made when it is made, and each line says what it does to the classes.
--
-- Needs   names
-- Defines MAX_MICROS, NEVER      the most that a record can have, and an instant that does not come
--         NO_ALERT               more than can be used
--         unpackTexts            struct.unpack
--         openAccount(usedText, billingKey, epoch, sequence)   the account of such a text; where that is a number (isNew), bringUpToDate
--                                makes the rest. lines: those that were made and not written yet; sequence: the number of the last one
--         isNumber(account)      whether it became a plain record again
--         usedTextOf(account)    the text of the field u
--         writeHot(account)      writes it, and the number of its last line
--         appendLines(outbox, lines)     appends the JSON of lines as one entry
--         amountsOf(account)     used, held, total and expired, with spaces between
--         heldPart(account)      what an event's JSON has of it beside used, sequence and epoch
--         change(account, number, used, held, expired)   notes what the next line does to a class
--         changesPart(account, cost)     what the JSON of a line of this cost has of that: [[class, used, held, expired], ...], without
--                                what is 0 at the end; nothing where it is [[1, cost]], as of every line of a plain record
--         classOf(account, number)       an open class: { number, left, used }
--         draw(account, micros)          uses credits, in drawing order; beyond all classes they are overdrawn, class 0
--         cover(account)         what is left pays for what is overdrawn: where there is any, nothing is left
--         reserve(account, micros)       holds credits, in drawing order; gives what the hold owns: "<class>:<micros> ...", less than it
--                                reserves where that is beyond all classes
--         settleOwned(account, owned, usage)   takes what a hold owned of its classes, and uses credits: of these first
local min, max = math.min, math.max
local MAX_MICROS, NEVER, NO_ALERT = 9e15, 9e15, 9e15 + 1
local unpackTexts = struct.unpack

local function openAccount(usedText, billingKey, epoch, sequence)
  local account = {
    billingKey = billingKey, epoch = epoch, sequence = sequence, lines = {}, changes = {}, classes = {}, held = 0, total = 0, expired = 0,
    overdrawn = 0, kept = 0, untilMs = NEVER, alertAt = NO_ALERT,
  }
  if string.byte(usedText) ~= 64 then
    account.used, account.isNew = tonumber(usedText), true
    return account
  end
  local mark, used, held, total, expired, limit, untilMs, settings, alertAt, overdrawn, kept, classesAt =
    unpackTexts('sssssssssss', usedText)
  account.used, account.held, account.total, account.expired = tonumber(used), tonumber(held), tonumber(total), tonumber(expired)
  account.limit, account.untilMs, account.settings, account.alertAt = tonumber(limit), tonumber(untilMs), settings, tonumber(alertAt)
  account.overdrawn, account.kept = tonumber(overdrawn), tonumber(kept)
  for number, left, classUsed in string.gmatch(string.sub(usedText, classesAt), '(%d+):(%d+):(%d+) ') do
    account.classes[#account.classes + 1] = { number = tonumber(number), left = tonumber(left), used = tonumber(classUsed) }
  end
  return account
end

local function isNumber(account)
  return account.isPlain and account.held == 0 and account.overdrawn == 0
end

local HOT = '@\0%d\0%d\0%d\0%d\0%d\0%d\0%s\0%d\0%d\0%d\0'
local function usedTextOf(account)
  if isNumber(account) then return format('%d', account.used) end
  local texts = {
    format(HOT, account.used, account.held, account.total, account.expired, account.limit, account.untilMs, account.settings,
      account.alertAt, account.overdrawn, account.kept),
  }
  for i, class in ipairs(account.classes) do texts[i + 1] = format('%d:%d:%d ', class.number, class.left, class.used) end
  return table.concat(texts)
end

local function writeHot(account)
  call('HSET', account.billingKey, 'u', usedTextOf(account), 'n' .. account.epoch, format('%d', account.sequence))
end

local function appendLines(outbox, lines)
  call('XADD', outbox, '*', 'e', table.concat(lines, '\n'))
  -- As in verify.lua: the count only steers a limit.
  if #lines > 1 then redis.pcall('INCRBY', string.sub(outbox, 1, 5) .. 'more', format('%d', #lines - 1)) end
end

local function amountsOf(account)
  return format('%d %d %d %d', account.used, account.held, account.total, account.expired)
end

local function heldPart(account)
  return account.held > 0 and format(',"h":%d', account.held) or ''
end

local function change(account, number, used, held, expired)
  for _, one in ipairs(account.changes) do
    if one[1] == number then
      one[2], one[3], one[4] = one[2] + used, one[3] + held, one[4] + expired
      return
    end
  end
  account.changes[#account.changes + 1] = { number, used, held, expired }
end

local CHANGES = { '[%d,%d]', '[%d,%d,%d]', '[%d,%d,%d,%d]' }
local function changesPart(account, cost)
  local texts = {}
  for _, one in ipairs(account.changes) do
    local last = one[4] ~= 0 and 3 or one[3] ~= 0 and 2 or one[2] ~= 0 and 1
    if last then texts[#texts + 1] = format(CHANGES[last], unpack(one, 1, last + 1)) end
  end
  account.changes = {}
  local text = table.concat(texts, ',')
  if text == '' or text == format('[1,%d]', cost) then return '' end
  return ',"g":[' .. text .. ']'
end

local function classOf(account, number)
  for i, class in ipairs(account.classes) do
    if class.number == number then return class, i end
  end
end

-- Uses credits that are counted as used already.
local function pay(account, micros)
  -- Below 0 it is what was given back before Redis learned of its usage.
  local repaid = max(0, min(micros, -account.overdrawn))
  local rest = micros - repaid
  for _, class in ipairs(account.classes) do
    if rest == 0 then break end
    local part = min(class.left, rest)
    if part > 0 then
      class.left, class.used, rest = class.left - part, class.used + part, rest - part
      change(account, class.number, part, 0, 0)
    end
  end
  account.overdrawn = account.overdrawn + repaid + rest
  if repaid + rest > 0 then change(account, 0, repaid + rest, 0, 0) end
end

local function draw(account, micros)
  account.used = account.used + micros
  pay(account, micros)
end

local function cover(account)
  for _, class in ipairs(account.classes) do
    local part = min(class.left, account.overdrawn)
    if part > 0 then
      class.left, class.used, account.overdrawn = class.left - part, class.used + part, account.overdrawn - part
      change(account, class.number, part, 0, 0)
      change(account, 0, -part, 0, 0)
    end
  end
end

local function reserve(account, micros)
  account.held = account.held + micros
  local owned, rest = '', micros
  for _, class in ipairs(account.classes) do
    if rest == 0 then break end
    local part = min(class.left, rest)
    if part > 0 then
      class.left, rest, owned = class.left - part, rest - part, owned .. format('%d:%d ', class.number, part)
      change(account, class.number, 0, part, 0)
    end
  end
  return owned
end

-- The part of a class that has ended, or of which a grant was voided: what it keeps for holds, it pays, or it expires.
local function settleEnded(account, number, owned, rest)
  for _, ended in ipairs(account.kept > 0 and account.ended or {}) do
    if ended.number == number or ended.from == number then
      local part = min(ended.held, owned)
      local paid = min(part, rest)
      ended.held, ended.used, ended.atMs = ended.held - part, ended.used + paid, nowMs
      account.kept, account.expired = account.kept - part, account.expired + part - paid
      change(account, ended.number, paid, -part, part - paid)
      owned, rest = owned - part, rest - paid
    end
  end
  return owned, rest
end

local function settleOwned(account, owned, usage)
  account.used = account.used + usage
  local rest = usage
  for numberText, microsText in string.gmatch(owned, '(%d+):(%d+) ') do
    local number, micros = tonumber(numberText), tonumber(microsText)
    micros, rest = settleEnded(account, number, micros, rest)
    local class = classOf(account, number)
    if class and micros > 0 then
      local paid = min(micros, rest)
      class.left, class.used, rest = class.left + micros - paid, class.used + paid, rest - paid
      change(account, number, paid, -micros, 0)
    end
  end
  pay(account, rest)
end
