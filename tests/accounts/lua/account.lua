-- The account of a billing record that has more than one class of credits, or holds (docs/accounts-design.md). Two texts hold
-- it: the hot one has what each call compares, the turn what the classes gave until the last turn.
--
-- Needs   names
-- Defines readHot(text)             an account of the packed text that stands where a plain record has its used credits; nil
--                                   where there is none
--         packHot(account)          that text
--         readTurn(text)            classes in drawing order, pins, pending grants, and what ended lately
--         packTurn(turn)            that text
--         newTurn()                 the turn of a record that had no account
--         fold(account)             lays what was used since the last turn over the classes
--         settlePins(account, micros, usage)    lets a hold that was open at the last pinning take what is pinned
--         leaveClass(account, class, leaves)    ends what leaves a class: { micros, gave, before }
--         giveBack(account, micros)             takes from used, and gives it to the classes again
local MAX_MICROS = 9e15
local min, max = math.min, math.max
local unpackTexts = struct.unpack

local function readHot(text)
  if string.byte(text) ~= 64 then return nil end
  local mark, used, held, total, expired, limit, untilMs = unpackTexts('sssssss', text)
  return {
    used = tonumber(used), held = tonumber(held), total = tonumber(total), expired = tonumber(expired), limit = tonumber(limit),
    untilMs = tonumber(untilMs), told = {},
  }
end

local HOT = '@\0%d\0%d\0%d\0%d\0%d\0%d\0'
local function packHot(account)
  return format(HOT, account.used, account.held, account.total, account.expired, account.limit, account.untilMs)
end

local function newTurn()
  return {
    number = 0, version = 0, atMs = 0, usedAtTurn = 0, overdrawn = 0, boundary = 0, heldByOld = 0, pinned = 0,
    classes = {}, pins = {}, pending = {}, ended = {},
  }
end

-- Reads so many items of some fields from a place on; gives them and the place after them.
local function readItems(text, at, count, read)
  local items = {}
  for i = 1, tonumber(count) do items[i], at = read(text, at) end
  return items, at
end

local function readClass(text, at)
  local ref, priority, endsAtMs, rollEndsAtMs, rollMaxMicros, taken, granted, gave, after = unpackTexts('ssssssss', text, at)
  return {
    ref = ref, priority = tonumber(priority), endsAtMs = tonumber(endsAtMs), rollEndsAtMs = tonumber(rollEndsAtMs),
    rollMaxMicros = tonumber(rollMaxMicros), taken = tonumber(taken), granted = tonumber(granted), gave = tonumber(gave),
  }, after
end

local function readPending(text, at)
  local class, after = readClass(text, at)
  local beginsAtMs, micros
  beginsAtMs, micros, after = unpackTexts('ss', text, after)
  return { class = class, beginsAtMs = tonumber(beginsAtMs), micros = tonumber(micros) }, after
end

local function readPin(text, at)
  local ref, micros, after = unpackTexts('ss', text, at)
  return { ref = ref, micros = tonumber(micros) }, after
end

local function readEnded(text, at)
  local ref, taken, atMs, after = unpackTexts('sss', text, at)
  return { ref = ref, taken = tonumber(taken), atMs = tonumber(atMs) }, after
end

local function readTurn(text)
  local number, version, atMs, usedAtTurn, overdrawn, boundary, heldByOld, classes, pins, pending, ended, at =
    unpackTexts('sssssssssss', text)
  local turn = {
    number = tonumber(number), version = tonumber(version), atMs = tonumber(atMs), usedAtTurn = tonumber(usedAtTurn),
    overdrawn = tonumber(overdrawn), boundary = tonumber(boundary), heldByOld = tonumber(heldByOld), pinned = 0,
  }
  turn.classes, at = readItems(text, at, classes, readClass)
  turn.pins, at = readItems(text, at, pins, readPin)
  turn.pending, at = readItems(text, at, pending, readPending)
  turn.ended = readItems(text, at, ended, readEnded)
  for _, pin in ipairs(turn.pins) do turn.pinned = turn.pinned + pin.micros end
  return turn
end

local CLASS = '%s\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0'
local function packClass(class)
  return format(CLASS, class.ref, class.priority, class.endsAtMs, class.rollEndsAtMs, class.rollMaxMicros, class.taken,
    class.granted, class.gave)
end

local function packTurn(turn)
  local texts = {
    format('%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0', turn.number, turn.version, turn.atMs, turn.usedAtTurn,
      turn.overdrawn, turn.boundary, turn.heldByOld, #turn.classes, #turn.pins, #turn.pending, #turn.ended),
  }
  for _, class in ipairs(turn.classes) do texts[#texts + 1] = packClass(class) end
  for _, pin in ipairs(turn.pins) do texts[#texts + 1] = format('%s\0%d\0', pin.ref, pin.micros) end
  for _, pending in ipairs(turn.pending) do
    texts[#texts + 1] = packClass(pending.class) .. format('%d\0%d\0', pending.beginsAtMs, pending.micros)
  end
  for _, ended in ipairs(turn.ended) do texts[#texts + 1] = format('%s\0%d\0%d\0', ended.ref, ended.taken, ended.atMs) end
  return table.concat(texts)
end

-- What the turn's line tells besides the state.
local function tell(account, what, ref, first, second, third)
  account.told[#account.told + 1] = format('%s %s %d %d %d', what, ref, first, second or 0, third or 0)
end

local function fold(account)
  local turn = account.turn
  local drawn = account.used - turn.usedAtTurn
  for _, class in ipairs(turn.classes) do
    if drawn == 0 then break end
    local part = min(class.granted - class.gave, drawn)
    class.gave, drawn = class.gave + part, drawn - part
  end
  turn.overdrawn, turn.usedAtTurn = turn.overdrawn + drawn, account.used
end

-- Takes from pins, the oldest first, at most so much; tells it, and gives how much it took.
local function takePins(account, micros, what)
  local turn, kept, rest = account.turn, {}, micros
  for _, pin in ipairs(turn.pins) do
    local part = min(pin.micros, rest)
    if part > 0 then tell(account, what, pin.ref, part) end
    pin.micros, rest = pin.micros - part, rest - part
    if pin.micros > 0 then kept[#kept + 1] = pin end
  end
  turn.pins, turn.pinned = kept, turn.pinned - micros + rest
  return micros - rest
end

local function settlePins(account, micros, usage)
  local turn = account.turn
  turn.heldByOld = turn.heldByOld - micros
  -- What pins pay, no class will.
  turn.usedAtTurn = turn.usedAtTurn + takePins(account, min(micros, usage), 'paid')
  account.expired = account.expired + takePins(account, max(0, turn.pinned - turn.heldByOld), 'expired')
  if turn.pinned == 0 then turn.boundary, turn.heldByOld = 0, 0 end
end

-- What so much of a class covers of the open holds, of which what stands before it covers its own part.
local function coveredBy(account, left, before)
  return min(left, max(0, account.held - account.turn.pinned - before))
end

local function leaveClass(account, class, leaves)
  local turn, left = account.turn, leaves.micros - leaves.gave
  local covered = coveredBy(account, left, leaves.before)
  class.granted, class.gave = class.granted - leaves.micros, class.gave - leaves.gave
  account.expired = account.expired + left - covered
  if covered > 0 then
    turn.pins[#turn.pins + 1] = { ref = class.ref, micros = covered }
    turn.pinned, turn.boundary, turn.heldByOld = turn.pinned + covered, turn.number, account.held
  end
  tell(account, 'left', class.ref, leaves.gave, left - covered, covered)
end

local function giveBack(account, micros)
  fold(account)
  local turn = account.turn
  account.used = account.used - micros
  turn.usedAtTurn = account.used
  local part = min(turn.overdrawn, micros)
  turn.overdrawn, micros = turn.overdrawn - part, micros - part
  for i = #turn.classes, 1, -1 do
    local class = turn.classes[i]
    part = min(class.gave, micros)
    class.gave, micros = class.gave - part, micros - part
  end
  -- The rest was drawn from what has ended, where it expires at once.
  account.expired = account.expired + micros
  if micros > 0 then tell(account, 'returned', '-', micros) end
end
