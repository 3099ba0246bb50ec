-- What of an account changes at moments alone, the field t: what its classes are and when they end, grants to come, what ended lately,
-- and alerts (docs/accounts-design.md).
--
-- Needs   names time account
-- Defines readList(text, at, names)  a list: the count of its items, and what names say of each; and the place after it
--         CLASS, DECLARED            what makes a class, and a class as settings declare it
--         readState(account, text)   reads it into an account
--         packState(account)         that text
--         endedOf(account, number)   what ended lately under a number: { number, from, atMs, taken, used, held }; from is the class of a
--                                    grant that was voided
--         forgetEnded(account)       drops what ended, or changed since then, more than a day ago
--         giveBack(account, micros)  takes from used, and gives it to the classes again
--         readAlerts(text, at)       alerts as settings declare them: their count, then what is said of each
--         takeAlerts(account, declared)   takes in alerts of settings; gives whether any is another one. A new one that used has
--                                    reached already tells nothing
--         noteCrossed(account, byLimits)   notes alerts on limits as crossed, as crossedByLimits gives them
--         watchAlerts(account)       arms alerts above used again, and notes those that used has reached since
--         nextAlert(account)         the used micro-credits at which the next alert is crossed; NO_ALERT without one
--         crossedPart(account)       what the JSON of the next line has of alerts noted as crossed
-- What stands in each item of a list.
local CLASS = { 'ref', 'number', 'priority', 'endsAtMs', 'rollEndsAtMs', 'rollMaxMicros' }
local OPEN = { 'ref', 'number', 'priority', 'endsAtMs', 'rollEndsAtMs', 'rollMaxMicros', 'taken', 'granted' }
local PENDING = { 'ref', 'number', 'priority', 'endsAtMs', 'rollEndsAtMs', 'rollMaxMicros', 'beginsAtMs', 'micros' }
local DECLARED =
  { 'ref', 'number', 'priority', 'endsAtMs', 'rollEndsAtMs', 'rollMaxMicros', 'firstVersion', 'begunMicros', 'pending' }
local ENDED = { 'number', 'from', 'atMs', 'taken', 'used', 'held' }
local TEXTS = { ref = true, pending = true }

local function readItem(text, at, names)
  local item = {}
  for _, name in ipairs(names) do
    local value
    value, at = unpackTexts('s', text, at)
    item[name] = TEXTS[name] and value or tonumber(value)
  end
  return item, at
end

local function readList(text, at, names)
  local items, count = {}, nil
  count, at = unpackTexts('s', text, at)
  for i = 1, tonumber(count) do items[i], at = readItem(text, at, names) end
  return items, at
end

local function packList(items, names)
  local texts = { format('%d', #items) }
  for _, item in ipairs(items) do
    for _, name in ipairs(names) do texts[#texts + 1] = TEXTS[name] and item[name] or format('%d', item[name]) end
  end
  return table.concat(texts, '\0') .. '\0'
end

-- With what armed each, where they stand in a state.
local function readAlerts(text, at, isState)
  local alerts, count = {}, nil
  count, at = unpackTexts('s', text, at)
  for i = 1, tonumber(count) do
    local name, kind, value, limit, after = unpackTexts('ssss', text, at)
    alerts[i] = { text = string.sub(text, at, after - 1), kind = kind, value = tonumber(value), armed = '' }
    at = after
    if isState then alerts[i].armed, at = unpackTexts('s', text, at) end
  end
  return alerts
end

local function readState(account, text)
  local version, atMs, classesAt = unpackTexts('ss', text)
  account.version, account.atMs = tonumber(version), tonumber(atMs)
  local classes, at = readList(text, classesAt, OPEN)
  for i, class in ipairs(classes) do
    for name, value in pairs(class) do account.classes[i][name] = value end
  end
  account.pending, at = readList(text, at, PENDING)
  account.ended, at = readList(text, at, ENDED)
  account.alerts = readAlerts(text, at, true)
  account.hasState = true
end

local function packState(account)
  local texts = {
    format('%d\0%d\0', account.version, account.atMs), packList(account.classes, OPEN),
    packList(account.pending, PENDING), packList(account.ended, ENDED), format('%d\0', #account.alerts),
  }
  for _, alert in ipairs(account.alerts) do texts[#texts + 1] = alert.text .. alert.armed .. '\0' end
  return table.concat(texts)
end

local function endedOf(account, number)
  for _, ended in ipairs(account.ended) do
    if ended.number == number then return ended end
  end
end

local ENDED_FOR_MS = 86400000
local function forgetEnded(account)
  local known = {}
  for _, ended in ipairs(account.ended) do
    if ended.held > 0 or ended.atMs + ENDED_FOR_MS > nowMs then known[#known + 1] = ended end
  end
  account.ended = known
end

local function giveBack(account, micros)
  -- What goes below 0 is of usage that Redis will learn of.
  local beyond = micros - max(0, min(account.used, micros))
  account.used = account.used - micros
  local overdrawn = max(0, min(account.overdrawn, micros - beyond))
  local rest = micros - beyond - overdrawn
  account.overdrawn = account.overdrawn - overdrawn - beyond
  change(account, 0, -overdrawn - beyond, 0, 0)
  for i = #account.classes, 1, -1 do
    local class = account.classes[i]
    local part = min(class.used, rest)
    class.used, class.left, rest = class.used - part, class.left + part, rest - part
    change(account, class.number, -part, 0, 0)
  end
  -- The rest was drawn from what has ended, where it expires at once: the latest first, and then what is forgotten.
  account.expired = account.expired + rest
  for i = #account.ended, 1, -1 do
    local ended = account.ended[i]
    local part = min(ended.used, rest)
    if part > 0 then ended.used, ended.atMs, rest = ended.used - part, nowMs, rest - part end
    change(account, ended.number, -part, 0, part)
  end
  change(account, 0, -rest, 0, rest)
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

-- Named by the line and the adjustment before it, and by what this script has crossed that no line tells yet: what is armed again was
-- crossed by one of them.
local function arm(account, alert)
  alert.armed = account.epoch .. '.' .. format('%d.%d.%d', account.sequence, account.adjustments, account.crossings or 0)
end

local function takeAlerts(account, declared)
  local known, taken, changed = {}, {}, #declared ~= #account.alerts
  for i, alert in ipairs(account.alerts) do
    known[alert.text] = alert
    changed = changed or declared[i].text ~= alert.text
  end
  for i, alert in ipairs(declared) do
    taken[i] = known[alert.text] or alert
    if not known[alert.text] and crossedAt(account, alert) > account.used then arm(account, alert) end
  end
  account.alerts = taken
  return changed
end

local function noteCrossed(account, byLimits)
  for i = 1, #byLimits, 2 do
    local alert = account.alerts[byLimits[i]]
    if alert then account.crossed = (account.crossed or '') .. alert.text .. byLimits[i + 1] .. '\0' end
  end
end

local function watchAlerts(account)
  for _, alert in ipairs(account.alerts) do
    local isAbove = crossedAt(account, alert) > account.used
    if isAbove and alert.armed == '' then
      arm(account, alert)
    elseif not isAbove and alert.armed ~= '' then
      account.crossed = (account.crossed or '') .. alert.text .. alert.armed .. '\0'
      alert.armed, account.crossings = '', (account.crossings or 0) + 1
    end
  end
end

local function nextAlert(account)
  local at = NO_ALERT
  for _, alert in ipairs(account.alerts) do
    if alert.armed ~= '' then at = min(at, crossedAt(account, alert)) end
  end
  return at
end

local function crossedPart(account)
  local crossed = account.crossed
  account.crossed = nil
  return crossed and ',"l":' .. cjson.encode(crossed) or ''
end
