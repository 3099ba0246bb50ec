-- Open holds of a billing record: a hash of what they are, and a sorted set of when they end.
--
-- Needs   names
-- Defines openHold(account, id, hold)     reserves; hold has micros, onExpiry, endsAtMs
--         readHold(account, id)           micros, onExpiry, number of the turn that it was opened in; nil unless it is open
--         closeHold(account, id)          the same, and takes it from held
--         nextHoldEnd(account)            when the first one ends, in ms; NEVER without one
--         holdsDue(account, atMs, most)   ids of those that have ended by then, the first to end first
local NEVER = 9e15

local function openHold(account, id, hold)
  call('HSET', account.holdsKey, id, format('%d\0%s\0%d\0', hold.micros, hold.onExpiry, account.turn.number))
  call('ZADD', account.endsKey, format('%d', hold.endsAtMs), id)
  account.held = account.held + hold.micros
end

local function readHold(account, id)
  local record = call('HGET', account.holdsKey, id)
  if not record then return nil end
  local micros, onExpiry, turn = struct.unpack('sss', record)
  return tonumber(micros), onExpiry, tonumber(turn)
end

local function closeHold(account, id)
  local micros, onExpiry, turn = readHold(account, id)
  call('HDEL', account.holdsKey, id)
  call('ZREM', account.endsKey, id)
  account.held = account.held - micros
  return micros, onExpiry, turn
end

local function nextHoldEnd(account)
  -- Without holds there is no such key to ask.
  if account.held == 0 then return NEVER end
  return tonumber(call('ZRANGE', account.endsKey, 0, 0, 'WITHSCORES')[2] or NEVER)
end

local function holdsDue(account, atMs, most)
  return call('ZRANGEBYSCORE', account.endsKey, '-inf', format('%d', atMs), 'LIMIT', 0, most)
end
