-- uses: names time
-- Removes records of a shard that is written again from the start.
--
-- KEYS  1 meta
--       2.. the names to remove
-- ARGV  1 build token
-- Gives {"OK" | "CLOSED", now in ms}
return script(function()
  if call('HGET', KEYS[1], 'build') ~= ARGV[1] then return { 'CLOSED', nowText } end
  for i = 2, #KEYS do call('UNLINK', KEYS[i]) end
  return { 'OK', nowText }
end)
