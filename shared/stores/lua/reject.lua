-- uses: time outbox
-- Sets aside what is no usage event in an entry of the outbox: appends each such part to another stream with the reason, and
-- removes the entry from the outbox, whose other events are in the books.
--
-- KEYS  1 outbox, 2 stream of dead entries
-- ARGV  1 group
--       2 id of the entry
--       3 how many events it holds beyond one
--       then for each part: reason, how many fields, its fields, at most some thousand
-- Gives {"OK", now in ms}
return script(function()
  local at = 4
  while at <= #ARGV do
    local last = at + 1 + tonumber(ARGV[at + 1])
    call('XADD', KEYS[2], '*', 'reason', ARGV[at], 'entry', ARGV[2], unpack(ARGV, at + 2, last))
    at = last + 1
  end
  call('XACK', KEYS[1], ARGV[1], ARGV[2])
  if call('XDEL', KEYS[1], ARGV[2]) == 1 then leaveOutbox(KEYS[1], tonumber(ARGV[3])) end
  return { 'OK', nowText }
end)
