-- Decides verifications, each by itself: for VALID alone it takes the rate token and the credits and appends the usage
-- event, all or nothing. Everything is read and checked before the first write.
--
-- KEYS  the record of each call's key text; meta, outbox, w:, b:, r: and i: of the same hash tag are named from it
-- ARGV  1 run id of this server            2 not after: Redis time in ms
--       3 "1" when the outbox is full       4 the calls one after the other, packed as records are, each of eight:
--         the caller's team; workspaces it is limited to, between spaces ("": all); client address as bits ("": none);
--         cost in micro-credits; the event's id and route, as they stand in its JSON; the event's cost and usage name,
--         likewise: what an Idempotency-Key is held to; hash of that key (""); representation, flags of each scope, all
--         between spaces
-- Gives {"OK", now in ms, then a text for each call}, each text's fields between \31:
--       "CLOSED" | "LATE" | "OUTBOX_FULL" | "CONFLICT" | "CORRUPT", what is wrong | "INVALID", "NOT_FOUND"
--       | status, reason, key's part of the answer, billing's part, used micro-credits ("" without billing; where
--         they were debited now, epoch and sequence number behind them), remaining ("" without a limit), reset at in ms,
--         flags of the scopes (JSON), the scopes' records between \30, workspace, limit per second ("" without)
local MAX_MICROS = 9e15 -- below 2^53: sums stay exact
local BASE_SECONDS = 1735689600 -- 2025: an eighth of a microsecond stays exact in a double until 2060
local TICKS_PER_SECOND = 8e6
local NOT_FOUND = 'INVALID\31NOT_FOUND'
local call, format, find, sub, unpackRecord = redis.call, string.format, string.find, string.sub, struct.unpack
local ceil, floor, max, min, decode = math.ceil, math.floor, math.max, math.min, cjson.decode

local time = call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local now = seconds * 1000 + floor(micros / 1000)
local nowText = format('%d', now)
local ticks = (seconds - BASE_SECONDS) * TICKS_PER_SECOND + micros * 8
local late, outboxFull = now > tonumber(ARGV[2]), ARGV[3] == '1'

local epochs = {}
-- The epoch of an open shard; false for one that is closed.
local function epochOf(tag)
  if epochs[tag] == nil then
    local meta = call('HMGET', tag .. 'meta', 'owner', 'epoch')
    epochs[tag] = meta[1] == ARGV[1] and meta[2]
  end
  return epochs[tag]
end

-- An address lies in a block when it starts with the block's bits.
local function allowed(address, blocks)
  for block in string.gmatch(blocks, '%S+') do
    if sub(address, 1, #block) == block then return true end
  end
  return false
end

-- What a key was granted of the scope with a representation; nil for one that it does not hold.
local function maskOf(workspace, masks, representation)
  local wanted = '\0' .. representation .. '\0'
  for i = 2, #workspace do
    if find(workspace[i], wanted, 1, true) then return decode(masks)[i - 1] end
  end
end

local function decide(key, callerTeam, workspaces, address, cost, identity, usage, onceHash, wanted)
  local tag = sub(key, 1, 5)
  local epoch = epochOf(tag)
  if not epoch then return 'CLOSED' end
  if late then return 'LATE' end

  local text = call('GET', key)
  if not text or find(text, '\0-\0', 1, true) then return NOT_FOUND end
  local _, state, team, workspaceId, keyId, expiresAt, validUntil, rate, ips, fields, masks, meter, keyPart =
    unpackRecord('sssssssssssss', text)
  if team ~= callerTeam or (validUntil ~= '0' and now >= tonumber(validUntil)) then return NOT_FOUND end
  if workspaces ~= '' and not find(workspaces, ' ' .. workspaceId .. ' ', 1, true) then return NOT_FOUND end

  -- The workspace's defaults as they are now, and its scopes that the key was granted.
  local workspace = call('HMGET', tag .. 'w:' .. workspaceId, unpack(decode(fields)))
  local _, defaultRate, defaultIps = unpackRecord('sss', workspace[1])
  local scopes = table.concat(workspace, '\30', 2)

  -- The billing record: settings as applied, used credits as counted here.
  local billingKey = meter ~= '' and tag .. 'b:' .. workspaceId .. ':' .. meter
  local billing = billingKey and call('HMGET', billingKey, 's', 'u', 'n' .. epoch)
  local metered = billing and billing[1]
  local billingId, limit, billingPart, used, sequence = '', 0, '', 0, 0
  cost = tonumber(cost)
  if metered then
    _, billingId, limit, billingPart = unpackRecord('ssss', billing[1])
    limit, used = tonumber(limit), tonumber(billing[2] or 0)
    sequence = tonumber(billing[3] or 0)
    if not (limit and used and sequence) then error('a billing record is not what it should be') end
  end

  -- GCRA: the theoretical arrival time moves one interval on for each verification, at most one second ahead of now.
  rate = tonumber(rate ~= '' and rate or defaultRate)
  local rateKey, interval, window, arrival
  if rate then
    rateKey = tag .. 'r:' .. keyId
    interval = ceil(TICKS_PER_SECOND / rate)
    window = interval * rate
    -- A clock that was set back, or a limit that was lowered, leaves at most a full window to wait for.
    arrival = min(max(tonumber(call('GET', rateKey) or 0), ticks), ticks + window)
  end

  local debited = ''
  local function allowance()
    if not rate then return '', '' end
    return format('%d', max(0, floor((window - (arrival - ticks)) / interval))),
      format('%d', BASE_SECONDS * 1000 + ceil(arrival / TICKS_PER_SECOND * 1000))
  end
  local function answer(status, reason, remaining, resetAt)
    if not remaining then remaining, resetAt = allowance() end
    return status .. '\31' .. reason .. '\31' .. keyPart .. '\31' .. billingPart .. '\31'
      .. (metered and format('%d', used) .. debited or '') .. '\31' .. remaining .. '\31' .. resetAt .. '\31'
      .. masks .. '\31' .. scopes .. '\31' .. workspaceId .. '\31' .. (rate or '')
  end

  if state == 'D' then return answer('DELETED', 'DELETED') end
  if state == 'X' then return answer('DISABLED', 'DISABLED') end
  if expiresAt ~= '0' and now >= tonumber(expiresAt) then return answer('EXPIRED', 'EXPIRED') end
  if ips == '' then ips = defaultIps end
  if ips ~= '' and ips ~= '*' and not allowed(address, ips) then return answer('INVALID', 'IP_NOT_ALLOWED') end
  for representation, flags in string.gmatch(wanted, '(%S+) (%d+)') do
    local mask = maskOf(workspace, masks, representation)
    flags = tonumber(flags)
    if not mask or bit.band(mask, flags) ~= flags then return answer('INVALID_SCOPES', 'SCOPE_MISSING') end
  end

  local onceKey = onceHash ~= '' and tag .. 'i:' .. keyId .. ':' .. onceHash
  local once = onceKey and call('GET', onceKey)
  if once then
    local first, remaining, resetAt = unpackRecord('sss', once)
    if first ~= usage then return 'CONFLICT' end
    -- A write, for WAIT speaks of a connection's writes only (Redis 7.2 and up): the first call's debit may not be copied yet.
    call('PEXPIREAT', onceKey, call('PEXPIRETIME', onceKey))
    return answer('VALID', '', remaining, resetAt)
  end

  if rate and arrival + interval > ticks + window then return answer('RATE_LIMITED', 'RATE_LIMIT') end
  if cost > 0 and meter ~= '' then
    if not metered then return answer('USAGE_LIMITED', 'NO_BILLING_RECORD') end
    if cost > min(limit, MAX_MICROS) - used then return answer('USAGE_LIMITED', 'CREDITS_USED_UP') end
  end
  if outboxFull and metered then return 'OUTBOX_FULL' end

  -- From here on only writes, the event first: should it be refused, nothing was taken.
  if metered then used, sequence = used + cost, sequence + 1 end
  local usedText, sequenceText = format('%d', used), format('%d', sequence)
  if not outboxFull then
    call('XADD', tag .. 'outbox', '*', 'e', '{' .. identity .. ',' .. usage .. ',"t":' .. nowText
      .. ',"k":"' .. keyId .. '","b":"' .. billingId .. '","u":' .. usedText .. ',"s":' .. sequenceText
      .. ',"e":' .. (metered and epoch or '0') .. '}')
  end
  if metered then
    debited = ' ' .. epoch .. ' ' .. sequenceText
    call('HSET', billingKey, 'u', usedText, 'n' .. epoch, sequenceText)
  end
  if rate then
    arrival = arrival + interval
    call('PSETEX', rateKey, '2000', format('%d', arrival))
  end
  local remaining, resetAt = allowance()
  if onceKey then
    call('SETEX', onceKey, '60', usage .. '\0' .. remaining .. '\0' .. resetAt .. '\0')
  end
  return answer('VALID', '', remaining, resetAt)
end

-- One corrupt record must not spoil the other calls.
local answers, at = { 'OK', nowText }, 1
for i, key in ipairs(KEYS) do
  local a, b, c, d, e, f, g, h, next = unpackRecord('ssssssss', ARGV[4], at)
  local decided, text = pcall(decide, key, a, b, c, d, e, f, g, h)
  answers[i + 2] = decided and text or 'CORRUPT\31' .. (type(text) == 'table' and text.err or tostring(text))
  at = next
end
return answers
