-- uses: time build
-- Opens a shard that is up to date again, at least 1 s after it was closed: no rate window is granted twice.
--
-- KEYS  1 meta
-- ARGV  1 run id, 2 build token, 3 epoch, 4 checkpoint (a transaction id), 5 its history
-- Gives {"OPEN", now in ms}
--       {"WAIT", now, ms still to wait}
--       {"LOST", now}   another builder has taken the build token
return script(function()
  local runId, token, epoch, checkpoint, history = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

  local meta = call('HMGET', KEYS[1], 'build', 'closedAt', 'closedFor')
  if meta[1] ~= token or meta[3] ~= runId then return { 'LOST', nowText } end
  local wait = tonumber(meta[2]) + 1000 - nowMs
  -- A clock that was set back must not keep the shard closed for longer than the rule asks.
  if wait > 1000 then
    call('HSET', KEYS[1], 'closedAt', nowText)
    wait = 1000
  end
  if wait > 0 then
    call('HSET', KEYS[1], 'buildUntil', buildUntil())
    return { 'WAIT', nowText, format('%.0f', wait) }
  end
  -- The count of writes starts at the time of opening: should an epoch ever come twice, no lookup of the first one holds.
  call('HSET', KEYS[1], 'owner', runId, 'epoch', epoch, 'checkpoint', checkpoint, 'history', history,
    'openedAt', nowText, 'writes', nowText)
  call('HDEL', KEYS[1], 'build', 'buildUntil', 'closedAt', 'closedFor')
  return { 'OPEN', nowText }
end)
