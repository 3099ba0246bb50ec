-- Packed records (records.ts): fields that each end in a NUL, the version first. struct.unpack takes them apart in a third
-- of the time of a pattern.
--
-- Defines declaresClasses(billingRecord)    whether settings have classes of credits
--         unpackFields(format, record, at)  the fields of a record, one for each "s" of the format, and where they end
--         unpackKeyRecord(keyRecord)        the fields of an API key from its state on; nil without one (false, tombstone);
--                                           of a pointer to another shard ">", the team and the shard
--         readUsed(billingKey, sequenceField)  gives used micro-credits as text and as a number, and the last sequence
--                                              number of an epoch (its field is "n<epoch>"). Of an account the text is the
--                                              account and there is no number. Gives nil where there is no such record: absent
--                                              is not zero. Raises an error where it is neither.
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

local function readUsed(billingKey, sequenceField)
  local counters = call('HMGET', billingKey, 'u', sequenceField)
  -- A record that was never debited has its settings.
  if not counters[1] and call('HEXISTS', billingKey, 's') == 0 then return nil end
  local usedText = counters[1] or '0'
  local used, sequence = tonumber(usedText), tonumber(counters[2] or 0)
  if not sequence or not used and string.byte(usedText) ~= 64 then error('a counter of a billing record is no number') end
  return usedText, used, sequence
end
