-- Rate limits by GCRA. A key's one value is its theoretical arrival time: each verification that passes moves it one
-- interval on, and it may lie at most one second ahead of now.
--
-- Needs   names time
-- Defines rateLimitAt(arrivalText, perSecond)  gives interval, latest and arrival, in ticks, from the value (false without
--                                              one). One more verification passes when arrival + interval <= latest; then
--                                              that sum is the new value, which the script keeps for 2 s.
local ceil, max, min = math.ceil, math.max, math.min

local function rateLimitAt(arrivalText, perSecond)
  local interval = ceil(TICKS_PER_SECOND / perSecond)
  local latest = nowTicks + interval * perSecond
  -- A clock that was set back, or a limit that was lowered, leaves at most a full second to wait for.
  return interval, latest, min(max(tonumber(arrivalText or 0), nowTicks), latest)
end
