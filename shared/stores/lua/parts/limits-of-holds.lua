-- What holds took from limits on credits, and its correction to what was used (docs/accounts-design.md).
--
-- Defines noteLimits(limits)   what a hold notes of limits that were judged and will be taken: "" of none. Of each its place (1 the key, 2 the
--                              record), the name of its counter, window, since when, and limit, and of each alert on it at how much it is crossed, its
--                              place and percentage
--         correctLimits(noted, names, hold, known)   corrects by { held, used, isLost } what a hold noted; isLost: this Redis has
--                              lost what it took, and perhaps the counter; gets `crossed`, for each alert
--                              that this crossed its place, percentage and name of the arming. names: the keys in Redis of the key's
--                              counters and the record's. known: the counters that were read, by these names, which the caller writes. A counter
--                              that has begun anew since, or of which a window has passed, stays
local UNKNOWN_SETTINGS, MOST_LIMITS = '........', 4
-- No window of the calendar is longer than a year.
local CALENDAR_MS = 31708800000

local function noteLimits(limits)
  local noted, index = {}, 0
  for p = 1, #limits do
    local counters = limits[p]
    for i = 1, #counters.whats do
      local what, values = string.lower(sub(counters.whats, i, i)), counters.values
      index = index + 1
      if what == 'c' and limits.amounts[index] > 0 then
        local window, since = values[4 * i + 2], values[4 * i]
        if window < LONGEST_WINDOW then
          local units, now
          units, now, since = slideOf(window)
        end
        local alerts = ''
        for place, crossedAt, alert, percent in string.gmatch(limits.alerts, '(%d+):(%d+):(%d+):(%d+) ') do
          if counters.place == 2 and tonumber(place) == i then
            alerts = alerts .. ';' .. crossedAt .. ',' .. alert .. ',' .. percent
          end
        end
        noted[#noted + 1] = format('%d:%s:%d:%d:%d%s ', counters.place, sub(counters.head, 8 * i - 7, 8 * i), window, since,
          values[4 * i + 1], alerts)
      end
    end
  end
  return table.concat(noted)
end

-- Corrects a counter, which is the i-th of its text.
local function correctCounter(counters, i, hold)
  local values, window, more = counters.values, hold.window, hold.used - hold.held
  local level, since, limit = values[4 * i - 1], values[4 * i], values[4 * i + 1]
  if window > LONGEST_WINDOW then
    if since ~= hold.since then return end
    local before, crossed = level, hold.crossed
    level = math.max(0, math.min(MOST, level + more))
    if counters.isNew or hold.isLost and values[1] < nowMs + CALENDAR_MS then
      values[1] = nowMs + CALENDAR_MS
      counters.restMs, counters.isNew = CALENDAR_MS, nil
    end
    for crossedAt, alert, percent in string.gmatch(hold.alerts, ';(%d+),(%d+),(%d+)') do
      local at = tonumber(crossedAt)
      if before < at and level >= at then
        crossed[#crossed + 1] = { place = tonumber(alert), percent = tonumber(percent), armed = format('%d.%s', since, percent) }
      end
    end
  else
    local units, now, nowUp, lengthMs = slideOf(window)
    level = levelAfter(level, limit, units, math.max(0, now - since))
    if hold.isLost then
      -- Until now all of it has fallen, or else no more than the limit is left.
      if now - hold.since >= units then return end
      level = math.max(level, math.min(limit, level + more))
    elseif more > 0 then level = math.min(MOST, level + more)
    -- Given back is only what can't have fallen since the hold: the rest has let others through.
    else level = level - math.min(level, levelAfter(-more, limit, units, math.max(0, now - hold.since))) end
    since = nowUp
    local restMs = math.min(level / limit * lengthMs, MOST_MS)
    if counters.isNew or nowMs + restMs > values[1] then
      values[1] = nowMs + restMs + HOUR_MS
      counters.restMs, counters.isNew = values[1] - nowMs, nil
    end
  end
  values[4 * i - 1], values[4 * i], counters.changed = level, since, true
end

-- The place of one more counter. The text has room for those of four limits, and so many a hold notes at most. Where holds noted
-- other limits than this one, which were changed between them, one of those makes room: it is a limit no longer, or this one is not.
local function placeFor(counters, count, noted)
  if count < MOST_LIMITS then return count + 1 end
  for i = 1, count do
    if not string.find(noted, ':' .. sub(counters.head, 8 * i - 7, 8 * i) .. ':', 1, true) then return i end
  end
end

local function correctLimits(noted, names, hold, known)
  hold.crossed = {}
  for place, name, window, since, limit, alerts in string.gmatch(noted, '(%d):([^:]+):(%d+):(%d+):(%d+)([^ ]*) ') do
    local keyName, found = names[tonumber(place)]
    local counters = known[keyName] or openCounters(keyName)
    known[keyName] = counters
    local noting = {
      window = tonumber(window), since = tonumber(since), held = hold.held, used = hold.used, isLost = hold.isLost,
      alerts = alerts, crossed = hold.crossed,
    }
    local count = math.max(0, #counters.head / 8 - 1)
    for i = 1, count do
      if sub(counters.head, 8 * i - 7, 8 * i) == name then found = i end
    end
    if not found and (noting.window < LONGEST_WINDOW or hold.isLost) and (counters.isNew or counters.isMade) then
      -- All that it had counted has fallen, or is lost.
      found, counters.isMade = placeFor(counters, count, noted), true
      counters.head = sub(counters.head, 1, 8 * found - 8) .. name .. sub(counters.head, 8 * found + 1, 8 * count) .. UNKNOWN_SETTINGS
      local values = counters.values
      values[2] = values[2] or 0
      values[4 * found - 1], values[4 * found], values[4 * found + 1], values[4 * found + 2] = 0, noting.since, tonumber(limit),
        noting.window
    end
    if found then correctCounter(counters, found, noting) end
  end
end
