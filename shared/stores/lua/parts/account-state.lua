-- What of an account changes at moments alone, the field t: what its classes are and when they end, grants to come, what ended lately,
-- and alerts (docs/accounts-design.md).
--
-- Defines ITEMS                      the names of what stands in an item of each kind
--         readItems(kind, items)     lists of values with their names
--         readState(account, text)   reads it into an account
--         packState(account)         that text
--         endedOf(account, number)   what ended lately under a number: { number, from, atMs, taken, used, held }; from is the class of a
--                                    grant that was voided
--         forgetEnded(account)       drops what ended, or changed since then, more than a day ago
--         giveBack(account, micros)  takes from used, and gives it to the classes again
--         readAlerts(text)           alerts as settings declare them
--         takeAlerts(account, declared)   takes in alerts of settings. A new one that used has reached already tells nothing
--         noteCrossed(account, byLimits)   notes alerts on limits as crossed, as crossedByLimits gives them
--         watchAlerts(account)       arms alerts above used again, and notes those that used has reached since
--         nextAlert(account)         the used micro-credits at which the next alert is crossed; NO_ALERT without one
--         crossedPart(account)       what the JSON of the next line has of alerts noted as crossed
-- What stands in each item of a list, in this order.
local function ofClass(...) return { 'ref', 'number', 'priority', 'endsAtMs', 'rollEndsAtMs', 'rollMaxMicros', ... } end
local ITEMS = {
  class = ofClass(), declared = ofClass('firstVersion', 'begunMicros', 'pending'), open = ofClass('taken', 'granted'),
  pending = ofClass('beginsAtMs', 'micros'), ended = { 'number', 'from', 'atMs', 'taken', 'used', 'held' },
  alert = { 'text', 'kind', 'value', 'armed' },
}

local function readItems(kind, items)
  for i, values in ipairs(items) do
    items[i] = {}
    for place, name in ipairs(ITEMS[kind]) do items[i][name] = values[place] end
  end
  return items
end

local function packItems(kind, items)
  local packed = {}
  for i, item in ipairs(items) do
    packed[i] = {}
    for place, name in ipairs(ITEMS[kind]) do packed[i][place] = item[name] end
  end
  return packed
end

local function readAlerts(text)
  local alerts = cjson.decode(text)
  for _, alert in ipairs(alerts) do
    alert.text, alert.armed = format('%s\0%s\0%d\0%s\0', alert.name, alert.kind, alert.value, alert.limit or ''), ''
  end
  return alerts
end

local function readState(account, text)
  local version, atMs, classes, pending, ended, alerts = unpack(cmsgpack.unpack(text))
  for i, class in ipairs(readItems('open', classes)) do
    for name, value in pairs(class) do account.classes[i][name] = value end
  end
  account.version, account.atMs, account.pending, account.ended = version, atMs, readItems('pending', pending), readItems('ended', ended)
  account.alerts, account.hasState = readItems('alert', alerts), true
end

local function packState(account)
  return cmsgpack.pack({
    account.version, account.atMs, packItems('open', account.classes), packItems('pending', account.pending),
    packItems('ended', account.ended), packItems('alert', account.alerts),
  })
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
  local known, taken = {}, {}
  for _, alert in ipairs(account.alerts) do known[alert.text] = alert end
  for i, alert in ipairs(declared) do
    taken[i] = known[alert.text] or alert
    if not known[alert.text] and crossedAt(account, alert) > account.used then arm(account, alert) end
  end
  account.alerts = taken
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
