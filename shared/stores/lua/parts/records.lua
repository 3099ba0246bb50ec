-- Packed records (records.ts): fields that each end in a NUL, the version first. struct.unpack takes them apart in a third
-- of the time of a pattern.
--
-- Defines declaresClasses(billingRecord)    whether settings have classes of credits
--         unpackFields(format, record, at)  the fields of a record, one for each "s" of the format, and where they end
--         unpackKeyRecord(keyRecord)        the fields of an API key from its state on; nil without one (false, tombstone);
--                                           of a pointer to another shard ">", the team and the shard
local unpackFields = struct.unpack

local function declaresClasses(billingRecord)
  return string.find(billingRecord, '^[^%z]*%z[^%z]*%z@') ~= nil
end

local function unpackKeyRecord(keyRecord)
  if not keyRecord then return nil end
  local version, state, teamIdAt = unpackFields('ss', keyRecord)
  if state == '-' then return nil end
  if state == '>' then return '>', unpackFields('ss', keyRecord, teamIdAt) end
  return state, unpackFields('ssssssssss', keyRecord, teamIdAt)
end
