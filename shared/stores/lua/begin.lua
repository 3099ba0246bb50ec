-- uses: time build
-- Claims the reopening of a closed shard: takes the build token, unless another builder holds it that is still alive.
--
-- KEYS  1 meta, 2 outbox
-- ARGV  1 run id of this server, 2 build token
-- Gives {"OPEN", now in ms}   nothing to do
--       {"BUSY", now}         another builder is at work
--       {"CLAIMED", now, checkpoint ("" when emptied), epoch, the last entry of its log, history of the checkpoint}
return script(function()
  local runId, token = ARGV[1], ARGV[2]

  local meta = call('HMGET', KEYS[1], 'owner', 'build', 'buildUntil', 'checkpoint', 'epoch', 'closedFor', 'history')
  if meta[1] == runId then return { 'OPEN', nowText } end
  -- A claim never lasts for longer than from now on: one that does is from before the clock was set back.
  local heldUntil = tonumber(meta[3] or '0')
  local isHeld = heldUntil > nowMs and heldUntil <= tonumber(buildUntil())
  if meta[2] and meta[2] ~= token and isHeld then return { 'BUSY', nowText } end

  -- Also of an entry that was deleted.
  local last = '0-0'
  local stream = redis.pcall('XINFO', 'STREAM', KEYS[2])
  for i = 1, #stream, 2 do
    if stream[i] == 'last-generated-id' then last = stream[i + 1] end
  end

  call('HDEL', KEYS[1], 'owner')
  call('HSET', KEYS[1], 'build', token, 'buildUntil', buildUntil())
  -- The rate windows of this server start when it was first seen closed.
  if meta[6] ~= runId then
    call('HSET', KEYS[1], 'closedFor', runId, 'closedAt', nowText)
  end
  return { 'CLAIMED', nowText, meta[4] or '', meta[5] or '0', last, meta[7] or '' }
end)
