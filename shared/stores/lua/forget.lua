-- uses: time
-- Removes consumers of the outbox's group that were not heard of for long and hold no entry: they died, and their entries
-- were taken over. One that holds entries stays, for its entries would no longer be pending and never be read again. One
-- that comes back is a consumer again with its next read.
--
-- KEYS  1 outbox
-- ARGV  1 group, 2 how long not heard of, in ms
-- Gives {"OK", now in ms, how many were removed}
return script(function()
  local idleMs, removed = tonumber(ARGV[2]), 0
  for _, fields in ipairs(call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    local consumer = {}
    for i = 1, #fields, 2 do consumer[fields[i]] = fields[i + 1] end
    if consumer.pending == 0 and consumer.idle >= idleMs then
      call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
      removed = removed + 1
    end
  end
  return { 'OK', nowText, format('%d', removed) }
end)
