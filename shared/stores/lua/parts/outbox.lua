-- Entries of the outbox that leave it. One may hold the events of a whole batch; `more` counts what the outbox holds beyond
-- one event per entry, so that its length and that count are its events (outbox-watch.ts).
--
-- Defines leaveOutbox(outbox, more)  for entries that were just deleted: they held so many events beyond one each
local function leaveOutbox(outbox, more)
  local name = string.sub(outbox, 1, 5) .. 'more'
  -- The count only steers a limit: whatever is wrong with it must not keep entries from leaving. An empty outbox mends it.
  local count = redis.pcall('GET', name)
  count = type(count) == 'string' and tonumber(count) or 0
  local left = call('XLEN', outbox) == 0 and 0 or math.max(0, count - more)
  if left ~= count then redis.pcall('SET', name, format('%.0f', left)) end
end
