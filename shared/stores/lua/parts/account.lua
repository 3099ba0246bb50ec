-- What the classes of an account gave until its last turn (docs/accounts-design.md), and what is laid over them.
--
-- Needs   names time hot-account
-- Defines readTurn(text)            classes in drawing order, pins, pending grants, what ended lately, and alerts
--         packTurn(turn)            that text
--         newTurn()                 the turn of a record that had no account
--         fold(account)             lays what was used since the last turn over the classes
--         settlePins(account, micros, usage)    lets a hold that was open at the last pinning take what is pinned
--         coveredBy(account, left, before)      what so much of a class covers of the open holds
--         leaveClass(account, class, leaves)    ends what leaves a class: { name, taken, micros, gave, before }
--         partEnded(account, ended, name, before, micros)   what a grant has of a class that has ended is its own, under its name
--         giveBack(account, micros)             takes from used, and gives it to the classes again
--         forgetEnded(turn)                     drops what ended, or changed since then, more than a day ago
--         readAlerts(text, at)                  alerts as settings declare them: their count, then the fields of each
--         takeAlerts(account, declared)         takes in alerts of settings; gives whether any is another one. A new one that
--                                               used has reached already tells nothing
--         watchAlerts(account)                  arms alerts above used again, and notes those that used has reached since
--         nextAlert(account)                    the used micro-credits at which the next alert is crossed; NO_ALERT without one
--         crossedPart(account)                  what the JSON of the next line has of alerts noted as crossed
local min, max = math.min, math.max

local function newTurn()
  return {
    number = 0, version = 0, atMs = 0, usedAtTurn = 0, overdrawn = 0, boundary = 0, heldByOld = 0, pinned = 0, line = '',
    classes = {}, pins = {}, pending = {}, ended = {}, alerts = {},
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
  local ref, taken, atMs, used, held, after = unpackTexts('sssss', text, at)
  return {
    ref = ref, taken = tonumber(taken), atMs = tonumber(atMs), used = tonumber(used), held = tonumber(held),
  }, after
end

local function readAlert(text, at)
  local name, kind, value, limit, after = unpackTexts('ssss', text, at)
  return { text = string.sub(text, at, after - 1), kind = kind, value = tonumber(value), armed = '' }, after
end

local function readAlerts(text, at)
  local count
  count, at = unpackTexts('s', text, at)
  return readItems(text, at, count, readAlert)
end

local function readArmedAlert(text, at)
  local alert, after = readAlert(text, at)
  alert.armed, after = unpackTexts('s', text, after)
  return alert, after
end

local function readTurn(text)
  local number, version, atMs, usedAtTurn, overdrawn, boundary, heldByOld, classes, pins, pending, ended, line, at =
    unpackTexts('ssssssssssss', text)
  local turn = {
    number = tonumber(number), version = tonumber(version), atMs = tonumber(atMs), usedAtTurn = tonumber(usedAtTurn),
    overdrawn = tonumber(overdrawn), boundary = tonumber(boundary), heldByOld = tonumber(heldByOld), pinned = 0,
    line = line,
  }
  turn.classes, at = readItems(text, at, classes, readClass)
  turn.pins, at = readItems(text, at, pins, readPin)
  turn.pending, at = readItems(text, at, pending, readPending)
  turn.ended, at = readItems(text, at, ended, readEnded)
  local alerts
  alerts, at = unpackTexts('s', text, at)
  turn.alerts = readItems(text, at, alerts, readArmedAlert)
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
    format('%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0%d\0%s\0', turn.number, turn.version, turn.atMs,
      turn.usedAtTurn, turn.overdrawn, turn.boundary, turn.heldByOld, #turn.classes, #turn.pins, #turn.pending, #turn.ended,
      turn.line),
  }
  for _, class in ipairs(turn.classes) do texts[#texts + 1] = packClass(class) end
  for _, pin in ipairs(turn.pins) do texts[#texts + 1] = format('%s\0%d\0', pin.ref, pin.micros) end
  for _, pending in ipairs(turn.pending) do
    texts[#texts + 1] = packClass(pending.class) .. format('%d\0%d\0', pending.beginsAtMs, pending.micros)
  end
  for _, ended in ipairs(turn.ended) do
    texts[#texts + 1] = format('%s\0%d\0%d\0%d\0%d\0', ended.ref, ended.taken, ended.atMs, ended.used, ended.held)
  end
  texts[#texts + 1] = format('%d\0', #turn.alerts)
  for _, alert in ipairs(turn.alerts) do texts[#texts + 1] = alert.text .. alert.armed .. '\0' end
  return table.concat(texts)
end

-- What the turn's line tells besides the state.
local function tell(account, what, ref, first, second, third)
  account.told[#account.told + 1] = format('%s %s %d %d %d', what, ref, first, second or 0, third or 0)
end

local function fold(account)
  local turn = account.turn
  local drawn = account.used - turn.usedAtTurn
  -- Usage that Redis lost and has not learned of again was given back already: it was drawn then.
  local repaid = max(min(drawn, -turn.overdrawn), min(drawn, 0))
  turn.overdrawn, drawn = turn.overdrawn + repaid, drawn - repaid
  for _, class in ipairs(turn.classes) do
    if drawn == 0 then break end
    local part = min(class.granted - class.gave, drawn)
    class.gave, drawn = class.gave + part, drawn - part
  end
  turn.overdrawn, turn.usedAtTurn = turn.overdrawn + drawn, account.used
end

-- What ended under a name; without it, the place for what was given back of all that is forgotten.
local function endedOf(turn, name)
  for i = #turn.ended, 1, -1 do
    if turn.ended[i].ref == name then return turn.ended[i] end
  end
  local forgotten = { ref = '-', taken = 0, used = 0, held = 0 }
  table.insert(turn.ended, 1, forgotten)
  return forgotten
end

-- Takes from pins, the oldest first, at most so much; tells it, and gives how much it took.
local function takePins(account, micros, what)
  local turn, kept, rest = account.turn, {}, micros
  for _, pin in ipairs(turn.pins) do
    local part = min(pin.micros, rest)
    if part > 0 then
      local ended = endedOf(turn, pin.ref)
      ended.held, ended.used, ended.atMs = ended.held - part, ended.used + (what == 'paid' and part or 0), nowMs
      tell(account, what, pin.ref, part)
    end
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
    turn.pins[#turn.pins + 1] = { ref = leaves.name, micros = covered }
    turn.pinned, turn.boundary, turn.heldByOld = turn.pinned + covered, turn.number, account.held
  end
  tell(account, 'left', leaves.name, leaves.gave, left - covered, covered)
  -- One that had ended begins again for a grant that Redis hears of after its end.
  for _, ended in ipairs(turn.ended) do
    if ended.ref == leaves.name then
      ended.taken, ended.atMs, ended.used, ended.held = leaves.taken, nowMs, ended.used + leaves.gave, ended.held + covered
      return
    end
  end
  turn.ended[#turn.ended + 1] = { ref = leaves.name, taken = leaves.taken, atMs = nowMs, used = leaves.gave, held = covered }
end

local function partEnded(account, ended, name, before, micros)
  local turn, part, pins = account.turn, { ref = name, taken = 0, atMs = nowMs }, {}
  part.used = max(0, min(ended.used - before, micros))
  part.held = max(0, min(ended.used + ended.held, before + micros) - max(ended.used, before))
  -- What it keeps stands in the pins of its class behind so much.
  local ahead, rest = max(0, before - ended.used), part.held
  local function keep(ref, most)
    if most > 0 then pins[#pins + 1] = { ref = ref, micros = most } end
    return most
  end
  for _, pin in ipairs(turn.pins) do
    local left = pin.micros
    if pin.ref == ended.ref then
      local stays = keep(pin.ref, min(left, ahead))
      local moves = keep(name, min(left - stays, rest))
      ahead, rest, left = ahead - stays, rest - moves, left - stays - moves
    end
    keep(pin.ref, left)
  end
  ended.used, ended.held, ended.atMs = ended.used - part.used, ended.held - part.held, nowMs
  turn.pins, turn.ended[#turn.ended + 1] = pins, part
  tell(account, 'parted', name, part.used, part.held)
end

local ENDED_FOR_MS = 86400000
local function forgetEnded(turn)
  local kept = {}
  for _, ended in ipairs(turn.ended) do
    if ended.held > 0 or ended.ref == '-' or ended.atMs + ENDED_FOR_MS > nowMs then kept[#kept + 1] = ended end
  end
  turn.ended = kept
end

local function giveBack(account, micros)
  fold(account)
  local turn = account.turn
  local known = max(0, min(account.used, micros))
  account.used = account.used - micros
  turn.usedAtTurn = account.used
  local part = max(0, min(turn.overdrawn, known))
  -- What goes below 0 is of usage that Redis has lost, and will learn of again.
  turn.overdrawn, micros = turn.overdrawn - part - (micros - known), known - part
  for i = #turn.classes, 1, -1 do
    local class = turn.classes[i]
    part = min(class.gave, micros)
    class.gave, micros = class.gave - part, micros - part
  end
  -- The rest was drawn from what has ended, where it expires at once: the latest first.
  account.expired = account.expired + micros
  if micros > 0 then tell(account, 'returned', '-', micros) end
  for i = #turn.ended, 1, -1 do
    local ended = turn.ended[i]
    part = max(0, min(ended.used, micros))
    if part > 0 then ended.used, ended.atMs, micros = ended.used - part, nowMs, micros - part end
  end
  if micros > 0 then
    local forgotten = endedOf(turn, '-')
    forgotten.used, forgotten.atMs = forgotten.used - micros, nowMs
  end
end

-- The used micro-credits at which an alert is crossed. By whole hundreds and a rest: 9e15 times a percentage is no exact number.
local function crossedAt(account, alert)
  local credits = account.total - account.expired
  if alert.kind == 'available' then return credits - alert.value end
  -- One of a limit: what it counts is not used credits.
  if alert.kind ~= 'usedPercent' then return math.huge end
  local rest = credits % 100
  return (credits - rest) / 100 * alert.value + math.ceil(rest * alert.value / 100)
end

-- Names the arming by the turn before this one: armed again after a loss, the alert has the name that it had. One turn may arm
-- several times.
local function arm(account, alert)
  local before = account.turn.line
  account.armings = (account.armings or 0) + 1
  alert.armed = (before ~= '' and before or nowText) .. '.' .. account.armings
end

local function takeAlerts(account, declared)
  local known, taken, changed = {}, {}, #declared ~= #account.turn.alerts
  for i, alert in ipairs(account.turn.alerts) do
    known[alert.text] = alert
    changed = changed or declared[i].text ~= alert.text
  end
  for i, alert in ipairs(declared) do
    taken[i] = known[alert.text] or alert
    if not known[alert.text] and crossedAt(account, alert) > account.used then arm(account, alert) end
  end
  account.turn.alerts = taken
  return changed
end

local function watchAlerts(account)
  for _, alert in ipairs(account.turn.alerts) do
    local isAbove = crossedAt(account, alert) > account.used
    if isAbove and alert.armed == '' then
      arm(account, alert)
    elseif not isAbove and alert.armed ~= '' then
      account.crossed = (account.crossed or '') .. alert.text .. alert.armed .. '\0'
      alert.armed = ''
    end
  end
end

local function nextAlert(account)
  local at = NO_ALERT
  for _, alert in ipairs(account.turn.alerts) do
    if alert.armed ~= '' then at = min(at, crossedAt(account, alert)) end
  end
  return at
end

local function crossedPart(account)
  local crossed = account.crossed
  account.crossed = nil
  return crossed and ',"l":' .. cjson.encode(crossed) or ''
end
