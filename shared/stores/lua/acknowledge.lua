-- uses: time outbox
-- Acknowledges and deletes entries of the outbox, both or neither: an entry that is acknowledged and not deleted would
-- stay forever.
--
-- KEYS  1 outbox
-- ARGV  1 group
--       2 how many entries, at most some thousand
--       3.. their ids, and then, for each, how many events it holds beyond one; nothing when none holds more
-- Gives {"OK", now in ms}
return script(function()
  local group, entries, more = ARGV[1], tonumber(ARGV[2]), 0

  if call('XACK', KEYS[1], group, unpack(ARGV, 3, entries + 2)) == entries then
    call('XDEL', KEYS[1], unpack(ARGV, 3, entries + 2))
    for i = entries + 3, #ARGV do more = more + tonumber(ARGV[i]) end
  else
    -- Another consumer has acknowledged some: only what is still there leaves now.
    for i = 3, entries + 2 do
      if call('XDEL', KEYS[1], ARGV[i]) == 1 then more = more + tonumber(ARGV[i + entries] or '0') end
    end
  end
  leaveOutbox(KEYS[1], more)
  return { 'OK', nowText }
end)
