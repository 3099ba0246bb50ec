-- Decides verifications, each by itself: for VALID alone it takes the rate token and the credits and appends the usage
-- event, all or nothing. Everything is read and checked before the first write.
--
-- What the records of a key, its workspace and its billing record say to a question is looked up once, and given back as
-- a finding. With it nothing is looked up again until a record of the shard is written, which apply.lua counts: a change
-- holds for the very next call. What calls themselves change, the rate, the used credits, is read each time.
--
-- Lua hashes every byte of each string that it makes (1.2 ns each), and a command from here costs 0.3 to 1.5 µs. So
-- records are handed on as they are, numbers become text once, and what is made of one call serves the next.
--
-- KEYS  the record of each call's key text; meta, outbox, w:, b:, r: and i: of the same hash tag are named from it
-- ARGV  1 run id of this server            2 not after: Redis time in ms
--       3 "1" when the outbox is full      4.. one per call, packed as records are:
--         the finding that was given for this key and question (none: ten empty fields); client address as bits
--         ("": none); cost in micro-credits; hash of an Idempotency-Key (""), and what it is held to; the event's JSON,
--         begun; the question: the caller's team, the workspaces it is limited to, between spaces ("": all), and each
--         wanted scope as its representation and a character whose low bits are the flags
-- Gives {"OK", now in ms, now in ticks, then for each call fields between \31:
--         "CLOSED" | "LATE" | "OUTBOX_FULL" | "CONFLICT" | "CORRUPT", what is wrong
--         | status, reason, used micro-credits ("" without billing), sequence number ("" when nothing was debited now),
--           limit per second ("" without one; then no more), theoretical arrival time in ticks and, where it is that of
--           an earlier call, that call's now in ticks
--       then for each call with a status that found its key by looking it up: its place among the calls, from 0; the
--         finding; the key's record; the billing record's settings (""); the workspace's scopes that the key was granted,
--         between \30}
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

-- Epoch and count of writes to the records of an open shard; false for one that is closed.
local shards = setmetatable({}, { __index = function(shards, tag)
  local meta = call('HMGET', tag .. 'meta', 'owner', 'epoch', 'writes')
  shards[tag] = meta[1] == ARGV[1] and { epoch = meta[2], writes = meta[3] or '0' }
  return shards[tag]
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

-- Looks up what the records say to a question: the fields of the finding, the key's record, the billing record's
-- settings, and the scopes; nil where the caller has no such key.
local function lookUp(tag, shard, key, packed, at)
  local callerTeam, workspaces, wantedAt = unpackRecord('ss', packed, at)
  local text = call('GET', key)
  if not text then return nil end
  local _, state, rest = unpackRecord('ss', text)
  if state == '-' then return nil end
  local team, workspaceId, keyId, expiresAt, validUntil, rate, ips, meter, fields, masks =
    unpackRecord('ssssssssss', text, rest)
  if team ~= callerTeam or (validUntil ~= '0' and now >= tonumber(validUntil)) then return nil end
  if workspaces ~= '' and not find(workspaces, ' ' .. workspaceId .. ' ', 1, true) then return nil end

  -- The workspace's defaults, and its scopes that the key was granted.
  local workspace = call('HMGET', tag .. 'w:' .. workspaceId, unpack(lists[fields]))
  local _, defaultRate, defaultIps = unpackRecord('sss', workspace[1])
  if rate == '' then rate = defaultRate end
  if ips == '' then ips = defaultIps end

  local billingKey, settings, billingId, limit = '', '', '', ''
  if meter ~= '' then
    billingKey = tag .. 'b:' .. workspaceId .. ':' .. meter
    settings = call('HGET', billingKey, 's') or ''
    if settings ~= '' then
      _, billingId, limit = unpackRecord('sss', settings)
      if not tonumber(limit) then error('a billing record is not what it should be') end
    end
  end

  -- Time alone may end it; that it is over may be undone by a clock that is set back.
  local refusal, holds = '', validUntil
  if state == 'D' then refusal, ips = 'DELETED\31DELETED', '*'
  elseif state == 'X' then refusal, ips = 'DISABLED\31DISABLED', '*'
  elseif expiresAt ~= '0' and now >= tonumber(expiresAt) then refusal, ips, holds = 'EXPIRED\31EXPIRED', '*', nowText
  else
    if not granted(packed, wantedAt, workspace, masks) then refusal = 'INVALID_SCOPES\31SCOPE_MISSING' end
    if expiresAt ~= '0' and (holds == '0' or tonumber(expiresAt) < tonumber(holds)) then holds = expiresAt end
  end
  local whose = ',"k":"' .. keyId .. '","b":"' .. billingId .. '"'
  return { shard.epoch, shard.writes, holds, ips == '*' and '' or ips, refusal, rate, tag .. 'r:' .. keyId, billingKey,
    limit, whose }, text, settings, table.concat(workspace, '\30', 2)
end

local function decide(key, packed)
  local tag = sub(key, 1, 5)
  local shard = shards[tag]
  if not shard then return 'CLOSED' end
  if late then return 'LATE' end

  local epoch, writes, holds, ips, refusal, rate, rateKey, billingKey, limit, whose,
    address, cost, onceHash, usage, event, at = unpackRecord('sssssssssssssss', packed)
  local finding, text, settings, scopes
  if epoch ~= shard.epoch or writes ~= shard.writes or (holds ~= '0' and now >= tonumber(holds)) then
    finding, text, settings, scopes = lookUp(tag, shard, key, packed, at)
    if not finding then return NOT_FOUND end
    epoch, writes, holds, ips, refusal, rate, rateKey, billingKey, limit, whose = unpack(finding)
    finding = table.concat(finding, '\0')
  end

  -- Used credits of the billing record, as counted here.
  local numberName = 'n' .. epoch
  local metered, used, sequence, usedText = limit ~= '', 0, 0, ''
  if metered then
    local counted = call('HMGET', billingKey, 'u', numberName)
    -- Absent is not zero: a record that was never debited has its settings.
    if not counted[1] and call('HEXISTS', billingKey, 's') == 0 then error('a billing record is gone') end
    usedText = counted[1] or '0'
    limit, used, sequence = tonumber(limit), tonumber(usedText), tonumber(counted[2] or 0)
    if not (used and sequence) then error('a billing record is not what it should be') end
  end

  -- GCRA: the theoretical arrival time moves one interval on for each verification, at most one second ahead of now.
  local limited, interval, window, arrival = rate ~= ''
  if limited then
    local perSecond = tonumber(rate)
    interval = ceil(TICKS_PER_SECOND / perSecond)
    window = interval * perSecond
    -- A clock that was set back, or a limit that was lowered, leaves at most a full window to wait for.
    arrival = min(max(tonumber(call('GET', rateKey) or 0), ticks), ticks + window)
  end

  local refused = refusal ~= '' and refusal
  if ips ~= '' and not allowed(address, ips) then refused = 'INVALID\31IP_NOT_ALLOWED' end

  local onceKey = not refused and onceHash ~= '' and tag .. 'i:' .. sub(rateKey, 8) .. ':' .. onceHash
  local once = onceKey and call('GET', onceKey)
  if once then
    local first, limitThen = unpackRecord('ss', once)
    if first ~= usage then return 'CONFLICT' end
    -- A write, for WAIT speaks of a connection's writes only (Redis 7.2 and up): the first call's debit may not be copied yet.
    call('PEXPIREAT', onceKey, call('PEXPIRETIME', onceKey))
    return 'VALID\31\31' .. usedText .. '\31\31' .. limitThen, finding, text, settings, scopes
  end

  cost = tonumber(cost)
  if not refused then
    if limited and arrival + interval > ticks + window then refused = 'RATE_LIMITED\31RATE_LIMIT'
    elseif cost == 0 or billingKey == '' then -- costs nothing
    elseif not metered then refused = 'USAGE_LIMITED\31NO_BILLING_RECORD'
    elseif cost > min(limit, MAX_MICROS) - used then refused = 'USAGE_LIMITED\31CREDITS_USED_UP'
    end
  end
  if refused then
    if limited then rate = rate .. '\31' .. format('%d', arrival) end
    return refused .. '\31' .. usedText .. '\31\31' .. rate, finding, text, settings, scopes
  end
  if outboxFull and metered then return 'OUTBOX_FULL' end

  -- From here on only writes, the event first: should it be refused, nothing was taken.
  local balance, sequenceText = ',"u":0,"s":0,"e":0}', ''
  if metered then
    usedText, sequenceText = format('%d', used + cost), format('%d', sequence + 1)
    balance = ',"u":' .. usedText .. ',"s":' .. sequenceText .. ',"e":' .. epoch .. '}'
  end
  if not outboxFull then call('XADD', tag .. 'outbox', '*', 'e', event .. ',"t":' .. nowText .. whose .. balance) end
  if metered then call('HSET', billingKey, 'u', usedText, numberName, sequenceText) end
  if limited then
    local arrivalText = format('%d', arrival + interval)
    call('PSETEX', rateKey, '2000', arrivalText)
    rate = rate .. '\31' .. arrivalText
  end
  if onceKey then call('SETEX', onceKey, '60', usage .. '\0' .. rate .. (limited and '\31' .. ticksText or '') .. '\0') end
  return 'VALID\31\31' .. usedText .. '\31' .. sequenceText .. '\31' .. rate, finding, text, settings, scopes
end

-- One corrupt record must not spoil the other calls.
local calls = #KEYS
local answers, at = { 'OK', nowText, ticksText }, calls + 4
for i = 1, calls do
  local decided, said, finding, text, settings, scopes = pcall(decide, KEYS[i], ARGV[i + 3])
  if not decided then said = 'CORRUPT\31' .. (type(said) == 'table' and said.err or tostring(said)) end
  answers[i + 3] = said
  if finding then
    answers[at], answers[at + 1], answers[at + 2] = format('%d', i - 1), finding, text
    answers[at + 3], answers[at + 4] = settings, scopes
    at = at + 5
  end
end
return answers
