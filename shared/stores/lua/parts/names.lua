-- Short names that other parts and most scripts use. A local is found faster than a field of a global.
--
-- Defines call, format, tonumber, sub, find, byte, unpackTexts, packTexts
--         whyOf(raised)   the message of an error that pcall gave
local call, format, tonumber, sub, find, byte = redis.call, string.format, tonumber, string.sub, string.find, string.byte
local unpackTexts, packTexts = struct.unpack, struct.pack

local function whyOf(raised) return type(raised) == 'table' and raised.err or tostring(raised) end
