-- Redis time, the one clock of days, limits and deadlines. A script reads it once, before all else.
--
-- Needs   names
-- Defines nowMs     Unix ms
--         nowText   the same as text
--         nowTicks  eighths of a microsecond since 2025: they stay exact in a double until 2060
local TICKS_PER_SECOND = 8e6
local BASE_SECONDS = 1735689600
local time = call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local nowMs = seconds * 1000 + math.floor(micros / 1000)
local nowText = format('%d', nowMs)
local nowTicks = (seconds - BASE_SECONDS) * TICKS_PER_SECOND + micros * 8
