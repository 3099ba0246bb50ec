-- uses: names time
-- Acknowledges and deletes entries of the outbox, both or neither: an entry that is acknowledged and not deleted would
-- stay forever.
--
-- KEYS  1 outbox
-- ARGV  1 group, 2.. ids of the entries, at most some thousand
-- Gives {"OK", now in ms}
call('XACK', KEYS[1], unpack(ARGV))
call('XDEL', KEYS[1], unpack(ARGV, 2))
return { 'OK', nowText }
