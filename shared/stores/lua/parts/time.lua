-- What a script was called with, and Redis time, the one clock of days, limits and deadlines: it is read once, before all else. The
-- functions of a script are made once for a server, so what belongs to one call is set anew for each.
--
-- Defines call, format, tonumber, sub, find, byte, unpackTexts, packTexts   short names: a local is found faster than a field of a global
--         whyOf(raised)   the message of an error that pcall gave
--         KEYS, ARGV   of this call
--         nowMs        Unix ms
--         nowText      the same as text
--         nowTicks     eighths of a microsecond since 2025: they stay exact in a double until 2060
--         script(run)  what Redis calls: gives what run() gives
local call, format, tonumber, sub, find, byte = redis.call, string.format, tonumber, string.sub, string.find, string.byte
local unpackTexts, packTexts = struct.unpack, struct.pack
local TICKS_PER_SECOND = 8e6
local BASE_SECONDS = 1735689600
local KEYS, ARGV, nowMs, nowText, nowTicks

local function whyOf(raised) return type(raised) == 'table' and raised.err or tostring(raised) end

local function script(run)
  return function(keys, arguments)
    local time = call('TIME')
    local seconds, micros = tonumber(time[1]), tonumber(time[2])
    KEYS, ARGV = keys, arguments
    nowMs = seconds * 1000 + math.floor(micros / 1000)
    nowText = format('%d', nowMs)
    nowTicks = (seconds - BASE_SECONDS) * TICKS_PER_SECOND + micros * 8
    return run()
  end
end
