-- Decides one verification and, for VALID alone, takes the rate token and the credits and appends the usage event: all
-- or nothing. Everything is read and checked before the first write.
--
-- KEYS  1 meta, 2 record of the key text, 3 outbox. Their neighbours {NN}:w:, b:, r: and i: are named by the record.
-- ARGV  1 run id of this server            2 not after: Redis time in ms
--       3 the caller's team                4 workspaces it is limited to, between spaces ("": all)
--       5 client address as bits ("" none) 6 cost in micro-credits
--       7 usage name                       8 route
--       9 event id                        10 "1" when the outbox is full
--      11 hash of the Idempotency-Key ("") 12.. requested scopes: representation, flags
-- Gives {"CLOSED" | "LATE" | "CORRUPT" | "OUTBOX_FULL" | "CONFLICT", now in ms}
--       {"INVALID", now, "NOT_FOUND"}
--       {status, now, reason, key's part of the answer, billing's part, used micro-credits ("" without billing),
--        remaining ("" without a limit), reset at in ms, then flags, representation and id of each scope}
local MAX_MICROS = 9e15 -- below 2^53: sums stay exact
local BASE_SECONDS = 1735689600 -- 2025: an eighth of a microsecond stays exact in a double until 2060
local TICKS_PER_SECOND = 8e6

local time = redis.call('TIME')
local seconds, micros = tonumber(time[1]), tonumber(time[2])
local now = seconds * 1000 + math.floor(micros / 1000)
local nowText = string.format('%.0f', now)

local meta = redis.call('HMGET', KEYS[1], 'owner', 'epoch')
if not meta[1] or meta[1] ~= ARGV[1] then return { 'CLOSED', nowText } end
if now > tonumber(ARGV[2]) then return { 'LATE', nowText } end

local function unpackRecord(text)
  local fields, count = {}, 0
  for field in string.gmatch(text .. '\31', '([^\31]*)\31') do
    count = count + 1
    fields[count] = field
  end
  return fields
end

-- An address lies in a block when it starts with the block's bits.
local function allowed(address, blocks)
  for block in string.gmatch(blocks, '%S+') do
    if string.sub(address, 1, #block) == block then return true end
  end
  return false
end

local text = redis.call('GET', KEYS[2])
if not text then return { 'INVALID', nowText, 'NOT_FOUND' } end
local _, state, team, workspaceId, keyId, expiresAt, validUntil, keyRate, keyIps, grants, meter, keyPart =
  unpack(unpackRecord(text))
if state == '-' or team ~= ARGV[3] then return { 'INVALID', nowText, 'NOT_FOUND' } end
expiresAt, validUntil = tonumber(expiresAt), tonumber(validUntil)
if not (keyPart and expiresAt and validUntil) then return { 'CORRUPT', nowText } end
if validUntil > 0 and now >= validUntil then return { 'INVALID', nowText, 'NOT_FOUND' } end
if ARGV[4] ~= '' and not string.find(ARGV[4], ' ' .. workspaceId .. ' ', 1, true) then
  return { 'INVALID', nowText, 'NOT_FOUND' }
end

-- The workspace's defaults as they are now, and its scopes that the key was granted.
local tag = string.sub(KEYS[1], 1, 5)
local fields, masks = { 'd' }, {}
for ref, mask in string.gmatch(grants, '(%d+)=(%d+)') do
  fields[#fields + 1] = 's' .. ref
  masks[#masks + 1] = tonumber(mask)
end
local workspace = redis.call('HMGET', tag .. 'w:' .. workspaceId, unpack(fields))
if not workspace[1] then return { 'CORRUPT', nowText } end
local _, defaultRate, defaultIps = unpack(unpackRecord(workspace[1]))
local scopes, held = {}, {}
for i, mask in ipairs(masks) do
  if not workspace[i + 1] then return { 'CORRUPT', nowText } end
  local _, representation, scopeId = unpack(unpackRecord(workspace[i + 1]))
  if representation ~= '-' then
    held[representation] = mask
    scopes[#scopes + 1] = tostring(mask)
    scopes[#scopes + 1] = representation
    scopes[#scopes + 1] = scopeId
  end
end

-- The billing record: settings as applied, used credits as counted here.
local billing = meter ~= '' and redis.call('HMGET', tag .. 'b:' .. workspaceId .. ':' .. meter, 's', 'u', 'n', 'e')
local metered = billing and billing[1]
local billingId, limit, billingPart, used, sequence = '', 0, '', 0, 0
local cost = tonumber(ARGV[6])
if metered then
  local record = unpackRecord(billing[1])
  billingId, limit, billingPart, used = record[2], tonumber(record[3]), record[4], tonumber(billing[2] or '0')
  if billing[4] == meta[2] then sequence = tonumber(billing[3]) end
  if not (billingPart and limit and used and sequence) then return { 'CORRUPT', nowText } end
end

-- GCRA: the theoretical arrival time moves one interval on for each verification, at most one second ahead of now.
local rate = tonumber(keyRate ~= '' and keyRate or defaultRate)
local rateKey, ticks, interval, window, arrival = tag .. 'r:' .. keyId, 0, 0, 0, 0
local remaining, resetAt = '', ''
local function showRate()
  remaining = string.format('%.0f', math.max(0, math.floor((window - (arrival - ticks)) / interval)))
  resetAt = string.format('%.0f', BASE_SECONDS * 1000 + math.ceil(arrival / TICKS_PER_SECOND * 1000))
end
if rate then
  ticks = (seconds - BASE_SECONDS) * TICKS_PER_SECOND + micros * 8
  interval = math.ceil(TICKS_PER_SECOND / rate)
  window = interval * rate
  -- A clock that was set back, or a limit that was lowered, leaves at most a full window to wait for.
  arrival = math.min(math.max(tonumber(redis.call('GET', rateKey) or '0'), ticks), ticks + window)
  showRate()
end

local function answer(status, reason)
  local used = metered and string.format('%.0f', used) or ''
  return { status, nowText, reason, keyPart, billingPart, used, remaining, resetAt, unpack(scopes) }
end

if state == 'D' then return answer('DELETED', 'DELETED') end
if state == 'X' then return answer('DISABLED', 'DISABLED') end
if expiresAt > 0 and now >= expiresAt then return answer('EXPIRED', 'EXPIRED') end
local ips = keyIps ~= '' and keyIps or defaultIps
if ips ~= '' and ips ~= '*' and not allowed(ARGV[5], ips) then return answer('INVALID', 'IP_NOT_ALLOWED') end
for i = 12, #ARGV, 2 do
  local mask, wanted = held[ARGV[i]], tonumber(ARGV[i + 1])
  if not mask or bit.band(mask, wanted) ~= wanted then return answer('INVALID_SCOPES', 'SCOPE_MISSING') end
end

local onceKey = ARGV[11] ~= '' and tag .. 'i:' .. keyId .. ':' .. ARGV[11]
local once = onceKey and redis.call('GET', onceKey)
if once then
  local first = unpackRecord(once)
  if first[1] ~= ARGV[6] or first[2] ~= ARGV[7] then return { 'CONFLICT', nowText } end
  remaining, resetAt = first[3], first[4]
  return answer('VALID', '')
end

if rate and arrival + interval > ticks + window then return answer('RATE_LIMITED', 'RATE_LIMIT') end
if cost > 0 and meter ~= '' then
  if not metered then return answer('USAGE_LIMITED', 'NO_BILLING_RECORD') end
  if cost > math.min(limit, MAX_MICROS) - used then return answer('USAGE_LIMITED', 'CREDITS_USED_UP') end
end
if ARGV[10] == '1' and metered then return { 'OUTBOX_FULL', nowText } end

-- From here on only writes, the event first: should it be refused, nothing was taken.
if metered then used, sequence = used + cost, sequence + 1 end
local usedText, sequenceText = string.format('%.0f', used), string.format('%.0f', sequence)
if ARGV[10] ~= '1' then
  redis.call('XADD', KEYS[3], '*', 'i', ARGV[9], 't', nowText, 'k', keyId, 'b', billingId, 'n', ARGV[7], 'c', ARGV[6],
    'u', usedText, 'e', metered and meta[2] or '0', 's', sequenceText, 'r', ARGV[8])
end
if metered then
  redis.call('HSET', tag .. 'b:' .. workspaceId .. ':' .. meter, 'u', usedText, 'n', sequenceText, 'e', meta[2])
end
if rate then
  arrival = arrival + interval
  showRate()
  redis.call('SET', rateKey, string.format('%.0f', arrival), 'PX', 2000)
end
if onceKey then
  redis.call('SET', onceKey, table.concat({ ARGV[6], ARGV[7], remaining, resetAt }, '\31'), 'EX', 60)
end
return answer('VALID', '')
