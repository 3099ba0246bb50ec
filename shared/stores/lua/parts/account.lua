-- The account of a billing record that has more than one class of credits, or holds (docs/accounts-design.md). It stands where a plain
-- record has its used credits: "@", the name of its settings to a NUL, and numbers as doubles (account-state.ts reads them). A draw is
-- made when it is made, and each line says what it does to the classes.
--
-- Defines MAX_MICROS, NEVER      the most that a record can have, and an instant that does not come
--         NO_ALERT               more than can be used
--         openAccount(usedText, billingKey, epoch, sequence, counters)   the account of such a text; where that is a number (isNew), bringUpToDate
--                                makes the rest. lines: those that were made and not written yet; sequence: the number of the last one;
--                                counters: those of limits that were read, by their names in Redis
--         isNumber(account)      whether it became a plain record again
--         usedTextOf(account)    the text of the field u
--         appendEntry(outbox, text, events)      appends the JSON of so many events, a line each, as one entry
--         appendLines(outbox, lines)     the same of lines
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
-- So many numbers, and then three of each class, of which there are at most 80.
local HOT, DOUBLES = 9, '<' .. string.rep('d', 9 + 3 * 80)

local function openAccount(usedText, billingKey, epoch, sequence, counters)
  local isNew = byte(usedText) ~= 64
  local settings, at, values
  if isNew then values = { tonumber(usedText), 0, 0, 0, nil, NEVER, NO_ALERT, 0, 0 }
  else
    settings, at = unpackTexts('s', usedText, 2)
    local count = (#usedText - at + 1) / 8
    if count < HOT or (count - HOT) % 3 ~= 0 then error('an account is damaged') end
    values = { unpackTexts(sub(DOUBLES, 1, 1 + count), usedText, at) }
    local room = values[5] - values[1] - values[2]
    -- NaN is unlike itself, and neither more nor less than any cost.
    if room ~= room then error('an account is damaged') end
  end
  local account = {
    billingKey = billingKey, epoch = epoch, sequence = sequence, settings = settings, counters = counters or {}, lines = {},
    changes = {}, classes = {}, isNew = isNew, used = values[1], held = values[2], total = values[3], expired = values[4],
    limit = values[5], untilMs = values[6], dueMs = values[6], alertAt = values[7], overdrawn = values[8], kept = values[9],
  }
  -- Behind the values comes where the text ends.
  for i = HOT + 1, isNew and 0 or #values - 1, 3 do
    account.classes[#account.classes + 1] = { number = values[i], left = values[i + 1], used = values[i + 2] }
  end
  return account
end

local function isNumber(account)
  return account.isPlain and account.held == 0 and account.overdrawn == 0
end

local function usedTextOf(account)
  if isNumber(account) then return format('%d', account.used) end
  local values = {
    account.used, account.held, account.total, account.expired, account.limit, account.untilMs, account.alertAt, account.overdrawn,
    account.kept,
  }
  for i, class in ipairs(account.classes) do
    local at = HOT + 3 * i
    values[at - 2], values[at - 1], values[at] = class.number, class.left, class.used
  end
  return '@' .. account.settings .. '\0' .. packTexts(sub(DOUBLES, 1, 1 + #values), unpack(values))
end

local function appendEntry(outbox, text, events)
  call('XADD', outbox, '*', 'e', text)
  -- The count only steers a limit: whatever is wrong with it, what was debited has its events.
  if events > 1 then redis.pcall('INCRBY', sub(outbox, 1, 5) .. 'more', format('%d', events - 1)) end
end

local function appendLines(outbox, lines) appendEntry(outbox, table.concat(lines, '\n'), #lines) end

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
  local texts, isPlain = {}, false
  for _, one in ipairs(account.changes) do
    local last = one[4] ~= 0 and 3 or one[3] ~= 0 and 2 or one[2] ~= 0 and 1
    if last then
      texts[#texts + 1] = format(CHANGES[last], unpack(one, 1, last + 1))
      isPlain = #texts == 1 and last == 1 and one[1] == 1 and one[2] == cost
    end
  end
  account.changes = {}
  if #texts == 0 or isPlain then return '' end
  return ',"g":[' .. table.concat(texts, ',') .. ']'
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
