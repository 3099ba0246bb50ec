-- uses: time
-- Removes records of a shard that is written again from the start.
--
-- KEYS  1 meta
--       2 outbox
--       3.. the names to remove
-- ARGV  1 build token, 2 an entry behind which the outbox goes on: what is in it stays; "" where it goes on anyway
-- Gives {"OK" | "CLOSED", now in ms}
return script(function()
  if call('HGET', KEYS[1], 'build') ~= ARGV[1] then return { 'CLOSED', nowText } end
  for i = 3, #KEYS do call('UNLINK', KEYS[i]) end
  local added = ARGV[2] ~= '' and redis.pcall('XADD', KEYS[2], ARGV[2], '', '')
  if added and not added.err then
    call('XDEL', KEYS[2], added)
  elseif added and not string.find(added.err, 'equal or smaller', 1, true) then
    return added
  end
  return { 'OK', nowText }
end)
