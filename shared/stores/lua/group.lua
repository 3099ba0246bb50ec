-- uses: time
-- Creates the group of the outbox, unless it exists, at 0: entries that were appended before it belong to it too.
--
-- KEYS  1 outbox
-- ARGV  1 group
-- Gives {"OK", now in ms}
return script(function()
  local answer = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
  if answer.err and not string.find(answer.err, '^BUSYGROUP') then return answer end
  return { 'OK', nowText }
end)
