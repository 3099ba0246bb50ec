-- Limits over windows (docs/accounts-design.md): what each has counted, and whether it lets a call through. The counters of a
-- key, or of a billing record, are one text: its head, to a NUL, which is the names of the counters and a name of their settings
-- (8 characters each), and then doubles: until when in ms the text is kept, until when windows of the calendar run, and for each
-- limit its level, since when, the most and the window. An amount is micro-credits, or a million for a request, so that a changed
-- limit keeps its count.
--
-- A sliding window (second, minute, hour) has a level that falls by the limit in each window: in whole units of time, so
-- exactly, and never too low. `since` is in these units since 2025. A window of the calendar has a sum; `since` is its first
-- instant in ms, which is larger than any window in units: that is how the two are told apart.
--
-- Speed. Each table and text that a script makes costs about what a limit may, and a text that becomes a number twice
-- that. So the settings are read from the call only where the text has others.
--
-- Defines readLimits(packedCall, ratePerSecond, names, known)   the limits of a call with their counters. ratePerSecond is "@", in
--                          three digits how many bytes they take at the end of the call, and the rate. There stand, for the key
--                          and then for the record, the head, and what each counts: "r"equests or "c"redits, as a capital where
--                          it only watches, "-" where it does not count this call; then of each alert on a limit of the record the limit,
--                          at how much it is crossed, its place among the alerts, and its percentage; and then the settings, for the key and for
--                          the record: until when windows of the calendar run, and for each limit the most and the window
--                          (units, or the first instant). names: the keys in Redis of the key's counters and the record's.
--                          known: the counters that were read before, by these names
--         judgeLimits(limits, costMicros)       notes which are the first that refuse: limits.ofRequests, limits.ofCredits
--         crossedByLimits(limits)               of a call that was judged and will be taken: place and name of the arming, in turn, of each alert
--                          that it crosses; nil where there is none. To be asked where limits.alerts has some
--         noteTaken(limits, isHeld)             what a call will take of limits that were judged, for cancel.lua to give back: of each
--                          micro-credits, "=", and what noteLimits notes of a hold. isHeld: its credits are a hold's, which notes them
--         takeLimits(limits)                    counts the call that was judged
--         writeCounters(counters)               writes what was counted, where that changed
--         tellLimits(limits, limitedBy, asked)  the end of an answer: see script-protocol.ts
-- A window that slides is marked by its length in µs, an hour by that in units of 100, and some seconds, minutes or hours by COUNTED and µs.
-- One of the calendar is marked by its beginning in ms, which is more.
local MOST, LONGEST_WINDOW, HOUR, COUNTED, HOUR_MS, MOST_MS = 9e15, 1e12, 3.6e7, 1e11, 3600000, 34560000000
local DOUBLES, LEVELS = '<dddddddddddddddddd', '%d %d %d %d %d %d %d %d '
local REQUESTS, WATCHED_REQUESTS, NOT_COUNTED, LOWER = 114, 82, 45, 97
-- Now is rounded down, and what is stored up: what falls until the next call is never more than the time allows.
local floor, ceil = math.floor, math.ceil

-- Of a window that slides: how many units of time it has, now in these, rounded down and up, and how long it is in ms. Products of two
-- such numbers of units are exact.
local function slideOf(window)
  local nowMicros = nowTicks / 8
  if window == HOUR then return window, floor(nowMicros / 100), ceil(nowMicros / 100), HOUR_MS end
  if window < COUNTED then return window, nowMicros, nowMicros, window / 1000 end
  local micros = window - COUNTED
  local unit = micros <= 6e7 and 1 or micros <= 3.6e9 and 100 or 1000
  return micros / unit, floor(nowMicros / unit), ceil(nowMicros / unit), micros / 1000
end

-- What is left of a level after a time. Every product stays below 2^53 where it counts: a larger one is more than any level.
local function levelAfter(level, limit, window, elapsed)
  if elapsed >= window then
    local rest = elapsed % window
    level, elapsed = level - (elapsed - rest) / window * limit, rest
  end
  local rest = limit % window
  local part = rest * elapsed
  level = level - (limit - rest) / window * elapsed - (part - part % window) / window
  return level > 0 and level or 0
end

-- Takes settings from a call into counters: those of the same name go on, others begin.
local function renewCounters(counters, head, packedCall, at)
  local before, values = counters.values, { counters.values[1] }
  local untilMs
  untilMs, at = unpackTexts('s', packedCall, at)
  values[2] = tonumber(untilMs)
  for i = 1, #head / 8 - 1 do
    local name, level, since, limit, window = sub(head, 8 * i - 7, 8 * i), 0, 0
    limit, window, at = unpackTexts('ss', packedCall, at)
    limit, window = tonumber(limit), tonumber(window)
    for j = 1, #counters.head / 8 - 1 do
      if sub(counters.head, 8 * j - 7, 8 * j) == name then level, since = before[4 * j - 1], before[4 * j] end
    end
    -- A window before the counter's: the clock was set back, and what is counted belongs to the counter's.
    if window > LONGEST_WINDOW and since < window then level, since = 0, window end
    values[4 * i - 1], values[4 * i], values[4 * i + 1], values[4 * i + 2] = level, since, limit, window
  end
  counters.head, counters.values = head, values
end

local function openCounters(name)
  local text = call('GET', name)
  if not text then return { name = name, head = '', values = { 0 }, isNew = true } end
  local head, at = unpackTexts('s', text)
  return { name = name, head = head, values = { unpackTexts(sub(DOUBLES, 1, #head / 2 - 1), text, at) } }
end

local function readLimits(packedCall, ratePerSecond, names, known)
  local headOfKey, whatsOfKey, headOfRecord, whatsOfRecord, alerts, settingsAt =
    unpackTexts('sssss', packedCall, #packedCall - sub(ratePerSecond, 2, 4) + 1)
  local levels, count, limits = { 0, 0, 0, 0, 0, 0, 0, 0 }, 0, { ratePerSecond = sub(ratePerSecond, 5) }
  for p = 1, 2 do
    local name, head, whats = names[p], p == 1 and headOfKey or headOfRecord, p == 1 and whatsOfKey or whatsOfRecord
    if whats ~= '' then
      local counters = known[name] or openCounters(name)
      known[name] = counters
      if counters.head ~= head then
        local at = settingsAt
        -- Behind those of the key.
        for i = 1, p == 1 and 0 or 2 * #whatsOfKey + (#whatsOfKey > 0 and 1 or 0) do
          local passed
          passed, at = unpackTexts('s', packedCall, at)
        end
        renewCounters(counters, head, packedCall, at)
      end
      local values = counters.values
      for i = 1, #whats do
        local level, window = values[4 * i - 1], values[4 * i + 2]
        if level > 0 and window < LONGEST_WINDOW then
          local units, now = slideOf(window)
          local elapsed = now - values[4 * i]
          if elapsed > 0 then level = levelAfter(level, values[4 * i + 1], units, elapsed) end
        end
        count = count + 1
        levels[count] = level
      end
      counters.whats, counters.place = whats, p
      limits[#limits + 1] = counters
    end
  end
  limits.levels, limits.count, limits.alerts = levels, count, alerts
  return limits
end

local function judgeLimits(limits, costMicros)
  local levels, amounts, index = limits.levels, { 0, 0, 0, 0, 0, 0, 0, 0 }, 0
  limits.wouldRefuse = ''
  for p = 1, #limits do
    local values, whats = limits[p].values, limits[p].whats
    for i = 1, #whats do
      local what, amount = byte(whats, i), costMicros
      if what == REQUESTS or what == WATCHED_REQUESTS then amount = 1e6 elseif what == NOT_COUNTED then amount = 0 end
      index = index + 1
      amounts[index] = amount
      if amount > values[4 * i + 1] - levels[index] and amount > 0 then
        if what < LOWER then limits.wouldRefuse = limits.wouldRefuse .. index .. ' '
        elseif what == REQUESTS then limits.ofRequests = limits.ofRequests or index
        else limits.ofCredits = limits.ofCredits or index end
      end
    end
  end
  limits.amounts = amounts
end

local function crossedByLimits(limits)
  local counters, crossed = limits[#limits], nil
  local before = limits.count - #counters.whats
  for place, crossedAt, alert, percent in string.gmatch(limits.alerts, '(%d+):(%d+):(%d+):(%d+) ') do
    local index, at = before + place, tonumber(crossedAt)
    local level = limits.levels[index]
    if level < at and level + limits.amounts[index] >= at then
      crossed = crossed or {}
      -- Once in a window: what a capture gives back and another call takes again is the same crossing.
      crossed[#crossed + 1], crossed[#crossed + 2] = tonumber(alert), format('%d.%s', counters.values[4 * place], percent)
    end
  end
  return crossed
end

local function noteTaken(limits, isHeld)
  local noted, index = '', 0
  for p = 1, #limits do
    local counters = limits[p]
    local values, whats = counters.values, counters.whats
    for i = 1, #whats do
      index = index + 1
      local what, level, amount = byte(whats, i), limits.levels[index], limits.amounts[index]
      local since, limit, window = values[4 * i], values[4 * i + 1], values[4 * i + 2]
      if amount > 0 and not (isHeld and what ~= REQUESTS and what ~= WATCHED_REQUESTS) then
        if window < LONGEST_WINDOW then
          if level + amount > limit then amount = math.max(0, limit - level) end
          -- What was counted before falls first; until then none of this does. A product beyond 2^53 is not exact.
          local units, now = slideOf(window)
          local product = level * units
          local busy = floor(product / limit) - (product > 2^53 and 1 or 0)
          since = now + math.max(0, busy)
        end
        -- One that watches may have had no room for it.
        if amount > 0 then
          noted = noted ..
            format('%d=%d:%s:%d:%d:%d ', amount, counters.place, sub(counters.head, 8 * i - 7, 8 * i), window, since, limit)
        end
      end
    end
  end
  return noted
end

local function takeLimits(limits)
  local levels, amounts, index = limits.levels, limits.amounts, 0
  for p = 1, #limits do
    local counters = limits[p]
    local values, whats = counters.values, counters.whats
    -- No level that is at most its limit takes longer to fall.
    local neededMs = nowMs + HOUR_MS
    if values[2] > neededMs then neededMs = values[2] end
    for i = 1, #whats do
      index = index + 1
      local amount = amounts[index]
      if amount > 0 then
        local was, limit, window = levels[index], values[4 * i + 1], values[4 * i + 2]
        local level = was + amount
        if level > limit then
          -- One that watches never rises above its limit: enforced some day, it would refuse for as long as that takes to fall.
          if window < LONGEST_WINDOW then level = was > limit and was or limit elseif level > MOST then level = MOST end
        end
        values[4 * i - 1], levels[index], counters.changed = level, level, true
        if window < LONGEST_WINDOW then
          local units, now, since = slideOf(window)
          values[4 * i] = since
        end
      end
      local window = values[4 * i + 2]
      if values[4 * i - 1] > values[4 * i + 1] and window < LONGEST_WINDOW then
        local units, now, since, lengthMs = slideOf(window)
        local restMs = values[4 * i - 1] / values[4 * i + 1] * lengthMs
        neededMs = math.max(neededMs, nowMs + math.min(restMs, MOST_MS))
      end
    end
    -- An hour longer than is needed: until then it is written without a lifetime, and a clock may be set back.
    if counters.isNew or neededMs > values[1] then
      values[1] = neededMs + HOUR_MS
      counters.restMs, counters.isNew = values[1] - nowMs, nil
    end
  end
end

local function writeCounters(counters)
  if not counters.changed then return end
  counters.changed = false
  local head = counters.head
  local text = head .. '\0' .. packTexts(sub(DOUBLES, 1, #head / 2 - 1), unpack(counters.values))
  if counters.restMs then call('SET', counters.name, text, 'PX', format('%d', counters.restMs))
  else call('SET', counters.name, text, 'KEEPTTL') end
end

local function tellLimits(limits, limitedBy, asked)
  local count = limits.count
  return '\30' .. limitedBy .. '\30' .. limits.wouldRefuse .. '\30' .. asked .. '\30' ..
    format(sub(LEVELS, 1, 3 * count), unpack(limits.levels, 1, count))
end
