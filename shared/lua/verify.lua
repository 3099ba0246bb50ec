-- Decides verifications, each by itself: for VALID alone it takes the rate token and the credits and appends the usage
-- event, all or nothing. Everything is read and checked before the first write.
--
-- Lua hashes every byte of each string that it makes (1.2 ns each), and a command from here costs 0.3 to 1.5 µs. So
-- records are handed on as they are, numbers become text once, and what is made of one call serves the next.
--
-- KEYS  the record of each call's key text; meta, outbox, w:, b:, r: and i: of the same hash tag are named from it
-- ARGV  1 run id of this server            2 not after: Redis time in ms
--       3 "1" when the outbox is full      4.. one per call, packed as records are:
--         the caller's team; workspaces it is limited to, between spaces ("": all); client address as bits ("": none);
--         cost in micro-credits; hash of an Idempotency-Key (""), and what it is held to; the event's JSON, begun; then
--         for each wanted scope its representation and a character whose low bits are the flags
-- Gives {"OK", now in ms, now in ticks, then four texts for each call}:
--       1 fields between \31: "CLOSED" | "LATE" | "OUTBOX_FULL" | "CONFLICT" | "CORRUPT", what is wrong
--         | status, reason, used micro-credits ("" without billing; where they were debited now, epoch and sequence
--           number behind them), limit per second ("" without one; then no more), theoretical arrival time in ticks and, where
--           it is that of an earlier call, that call's now in ticks
--       2 the key's record ("": not found, and no more), 3 the billing record's settings (""), 4 the workspace's scopes
--         that the key was granted, between \30
local MAX_MICROS = 9e15 -- below 2^53: sums stay exact
local BASE_SECONDS = 1735689600 -- 2025: an eighth of a microsecond stays exact in a double until 2060
local TICKS_PER_SECOND = 8e6
local NOT_FOUND = 'INVALID\31NOT_FOUND'
local call, format, find, sub, byte = redis.call, string.format, string.find, string.sub, string.byte
local ceil, max, min, unpackRecord = math.ceil, math.max, math.min, struct.unpack

local time = call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local now = seconds * 1000 + math.floor(micros / 1000)
local ticks = (seconds - BASE_SECONDS) * TICKS_PER_SECOND + micros * 8
local nowText, ticksText = format('%d', now), format('%d', ticks)
local late, outboxFull = now > tonumber(ARGV[2]), ARGV[3] == '1'

-- The epoch of an open shard; false for one that is closed.
local epochs = setmetatable({}, { __index = function(epochs, tag)
  local meta = call('HMGET', tag .. 'meta', 'owner', 'epoch')
  epochs[tag] = meta[1] == ARGV[1] and meta[2]
  return epochs[tag]
end })

-- The fields of a workspace that a key needs.
local lists = setmetatable({}, { __index = function(lists, fields)
  lists[fields] = cjson.decode(fields)
  return lists[fields]
end })

-- An address lies in a block when it starts with the block's bits.
local function allowed(address, blocks)
  for block in string.gmatch(blocks, '%S+') do
    if sub(address, 1, #block) == block then return true end
  end
  return false
end

-- Whether every scope that a call wants, from a place in it on, was granted with all its flags.
local function granted(packed, at, workspace, masks)
  while at <= #packed do
    local representation, flags
    representation, flags, at = unpackRecord('ss', packed, at)
    local wanted, mask = '\0' .. representation .. '\0', 0
    for i = 2, #workspace do
      if find(workspace[i], wanted, 1, true) then mask = byte(masks, i - 1) end
    end
    flags = byte(flags)
    if bit.band(mask, flags) ~= flags then return false end
  end
  return true
end

local function decide(key, packed)
  local tag = sub(key, 1, 5)
  local epoch = epochs[tag]
  if not epoch then return 'CLOSED' end
  if late then return 'LATE' end

  local callerTeam, workspaces, address, cost, onceHash, usage, event, wantedAt = unpackRecord('sssssss', packed)
  local text = call('GET', key)
  if not text or find(text, '\0-\0', 1, true) then return NOT_FOUND end
  local _, state, team, workspaceId, keyId, expiresAt, validUntil, rate, ips, meter, fields, masks =
    unpackRecord('ssssssssssss', text)
  if team ~= callerTeam or (validUntil ~= '0' and now >= tonumber(validUntil)) then return NOT_FOUND end
  if workspaces ~= '' and not find(workspaces, ' ' .. workspaceId .. ' ', 1, true) then return NOT_FOUND end

  -- The workspace's defaults as they are now, and its scopes that the key was granted.
  local workspace = call('HMGET', tag .. 'w:' .. workspaceId, unpack(lists[fields]))
  local _, defaultRate, defaultIps = unpackRecord('sss', workspace[1])
  local scopes = table.concat(workspace, '\30', 2)

  -- The billing record: settings as applied, used credits as counted here.
  local numberName = 'n' .. epoch
  local billingKey = meter ~= '' and tag .. 'b:' .. workspaceId .. ':' .. meter
  local billing = billingKey and call('HMGET', billingKey, 's', 'u', numberName)
  local metered = billing and billing[1]
  local billingId, limit, used, sequence, usedText = '', 0, 0, 0, ''
  if metered then
    _, billingId, limit = unpackRecord('sss', metered)
    usedText = billing[2] or '0'
    limit, used, sequence = tonumber(limit), tonumber(usedText), tonumber(billing[3] or 0)
    if not (limit and used and sequence) then error('a billing record is not what it should be') end
  end

  -- GCRA: the theoretical arrival time moves one interval on for each verification, at most one second ahead of now.
  if rate == '' then rate = defaultRate end
  local limited, rateKey, interval, window, arrival = rate ~= ''
  if limited then
    rateKey = tag .. 'r:' .. keyId
    interval = ceil(TICKS_PER_SECOND / tonumber(rate))
    window = interval * tonumber(rate)
    -- A clock that was set back, or a limit that was lowered, leaves at most a full window to wait for.
    arrival = min(max(tonumber(call('GET', rateKey) or 0), ticks), ticks + window)
  end

  local refused
  if ips == '' then ips = defaultIps end
  if state == 'D' then refused = 'DELETED\31DELETED'
  elseif state == 'X' then refused = 'DISABLED\31DISABLED'
  elseif expiresAt ~= '0' and now >= tonumber(expiresAt) then refused = 'EXPIRED\31EXPIRED'
  elseif ips ~= '' and ips ~= '*' and not allowed(address, ips) then refused = 'INVALID\31IP_NOT_ALLOWED'
  elseif not granted(packed, wantedAt, workspace, masks) then refused = 'INVALID_SCOPES\31SCOPE_MISSING'
  end

  local onceKey = not refused and onceHash ~= '' and tag .. 'i:' .. keyId .. ':' .. onceHash
  local once = onceKey and call('GET', onceKey)
  if once then
    local first, limitThen = unpackRecord('ss', once)
    if first ~= usage then return 'CONFLICT' end
    -- A write, for WAIT speaks of a connection's writes only (Redis 7.2 and up): the first call's debit may not be copied yet.
    call('PEXPIREAT', onceKey, call('PEXPIRETIME', onceKey))
    return 'VALID\31\31' .. usedText .. '\31' .. limitThen, text, metered or '', scopes
  end

  cost = tonumber(cost)
  if not refused then
    if limited and arrival + interval > ticks + window then refused = 'RATE_LIMITED\31RATE_LIMIT'
    elseif cost == 0 or meter == '' then -- costs nothing
    elseif not metered then refused = 'USAGE_LIMITED\31NO_BILLING_RECORD'
    elseif cost > min(limit, MAX_MICROS) - used then refused = 'USAGE_LIMITED\31CREDITS_USED_UP'
    end
  end
  if refused then
    if limited then rate = rate .. '\31' .. format('%d', arrival) end
    return refused .. '\31' .. usedText .. '\31' .. rate, text, metered or '', scopes
  end
  if outboxFull and metered then return 'OUTBOX_FULL' end

  -- From here on only writes, the event first: should it be refused, nothing was taken.
  local sequenceText = '0'
  if metered then usedText, sequenceText = format('%d', used + cost), format('%d', sequence + 1) end
  if not outboxFull then
    call('XADD', tag .. 'outbox', '*', 'e', event .. ',"t":' .. nowText .. ',"k":"' .. keyId .. '","b":"' .. billingId
      .. '","u":' .. (metered and usedText or '0') .. ',"s":' .. sequenceText .. ',"e":' .. (metered and epoch or '0') .. '}')
  end
  if metered then
    call('HSET', billingKey, 'u', usedText, numberName, sequenceText)
    usedText = usedText .. ' ' .. epoch .. ' ' .. sequenceText
  end
  if limited then
    local arrivalText = format('%d', arrival + interval)
    call('PSETEX', rateKey, '2000', arrivalText)
    rate = rate .. '\31' .. arrivalText
  end
  if onceKey then call('SETEX', onceKey, '60', usage .. '\0' .. rate .. (limited and '\31' .. ticksText or '') .. '\0') end
  return 'VALID\31\31' .. usedText .. '\31' .. rate, text, metered or '', scopes
end

-- One corrupt record must not spoil the other calls.
local answers, at = { 'OK', nowText, ticksText }, 4
for i = 1, #KEYS do
  local decided, said, key, settings, scopes = pcall(decide, KEYS[i], ARGV[i + 3])
  if not decided then said = 'CORRUPT\31' .. (type(said) == 'table' and said.err or tostring(said)) end
  answers[at], answers[at + 1], answers[at + 2], answers[at + 3] = said, key or '', settings or '', scopes or ''
  at = at + 4
end
return answers
