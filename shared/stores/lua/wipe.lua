-- uses: names time
-- Removes records of a shard that is written again from the start.
--
-- KEYS  1 meta
--       2.. the names to remove; the outbox alone where ARGV[2] is given
-- ARGV  1 build token, 2 the last entry of the log that was there, behind which the outbox goes on; "" where it does not
-- Gives {"OK" | "CLOSED", now in ms}
return script(function()
  if call('HGET', KEYS[1], 'build') ~= ARGV[1] then return { 'CLOSED', nowText } end
  for i = 2, #KEYS do call('UNLINK', KEYS[i]) end
  if ARGV[2] ~= '' then call('XDEL', KEYS[2], call('XADD', KEYS[2], ARGV[2], '', '')) end
  return { 'OK', nowText }
end)
