-- uses: time build
-- Closes a shard and claims its reopening, even from another builder: all that it has is to be written again, whoever ends it.
--
-- KEYS  1 meta, 2 outbox
-- ARGV  1 run id of this server, 2 build token
-- Gives {"CLAIMED", now in ms, "", epoch, "", ""}
return script(function()
  call('HDEL', KEYS[1], 'owner', 'checkpoint', 'history')
  call('HSET', KEYS[1], 'build', ARGV[2], 'buildUntil', buildUntil(), 'closedFor', ARGV[1], 'closedAt', nowText)
  return { 'CLAIMED', nowText, '', call('HGET', KEYS[1], 'epoch') or '0', '', '' }
end)
