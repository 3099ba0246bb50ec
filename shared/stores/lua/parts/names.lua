-- Short names that other parts and most scripts use. A local is found faster than a field of a global.
--
-- Defines call, format, tonumber
local call, format, tonumber = redis.call, string.format, tonumber
