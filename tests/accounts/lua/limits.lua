-- Takes holds from limits and corrects them, after the parts that keep them.
--
-- KEYS  1 the counters of a key, 2 those of a record
-- ARGV  1 "hold", the rate field of a lookup, what stands at the end of a call, and the micro-credits to hold
--         or "correct", what the hold noted, the micro-credits that it held, and those that were used
-- Gives {"VALID" or "REFUSED", what the hold notes, the levels}
if ARGV[1] == 'correct' then
  local own = {}
  correctLimits(ARGV[2], KEYS, { held = tonumber(ARGV[3]), used = tonumber(ARGV[4]) }, own)
  for _, counters in pairs(own) do
    if counters.changed then writeCounters(counters, call) end
  end
  return {}
end
local limits = readLimits(ARGV[3], ARGV[2], KEYS)
judgeLimits(limits, tonumber(ARGV[4]))
if limits.ofRequests or limits.ofCredits then return { 'REFUSED', '', tellLimits(limits, '', '') } end
local noted = noteLimits(limits)
takeLimits(limits)
for _, counters in ipairs(limits) do
  if counters.changed then writeCounters(counters, call) end
end
return { 'VALID', noted, tellLimits(limits, '', '') }
