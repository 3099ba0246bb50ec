-- uses: names time
-- Sets an entry of the outbox aside that is no usage event: appends it to another stream with the reason, and removes it
-- from the outbox.
--
-- KEYS  1 outbox, 2 stream of dead entries
-- ARGV  1 group, 2 id of the entry, 3 reason, 4.. its fields, at most some thousand
-- Gives {"OK", now in ms}
call('XADD', KEYS[2], '*', 'reason', ARGV[3], 'entry', ARGV[2], unpack(ARGV, 4))
call('XACK', KEYS[1], ARGV[1], ARGV[2])
call('XDEL', KEYS[1], ARGV[2])
return { 'OK', nowText }
