-- What a billing record has used, as this Redis counts it.
--
-- Needs   names
-- Defines readUsed(billingKey, sequenceField)  gives used micro-credits as text and as a number, and the last sequence
--                                              number of an epoch (its field is "n<epoch>"). Of an account the text is the
--                                              account and there is no number. Gives nil where there is no such record: absent
--                                              is not zero. Raises an error where it is neither.
local function readUsed(billingKey, sequenceField)
  local counters = call('HMGET', billingKey, 'u', sequenceField)
  -- A record that was never debited has its settings.
  if not counters[1] and call('HEXISTS', billingKey, 's') == 0 then return nil end
  local usedText = counters[1] or '0'
  local used, sequence = tonumber(usedText), tonumber(counters[2] or 0)
  if not sequence or not used and string.byte(usedText) ~= 64 then error('a counter of a billing record is no number') end
  return usedText, used, sequence
end
