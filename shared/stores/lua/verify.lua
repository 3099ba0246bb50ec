-- uses: names time fence rate-limit used records
-- Decides verifications, each on its own. A VALID one takes its rate token and its credits and appends its usage event,
-- all or nothing: all of a batch are read, checked and decided before the first write, which appends the events of all of
-- them as one entry of the outbox. Should Redis refuse that (its memory is full), nothing was taken, and each is decided again
-- alone. A later one goes by what those before it took.
--
-- Lookups. What the records of a key, its workspace and its billing record say to one question (whose token asks, for
-- which scopes) seldom changes. The script looks it up once and answers it as a "lookup"; the caller keeps the lookup and
-- sends it along the next time. It holds until a record of the shard is written: apply.lua counts those writes, and a
-- change is in force for the very next call. Rate limits and used credits change with each call and are always read.
--
-- Speed. Lua hashes every byte of each string that it makes (1.2 ns), and a command costs 0.3 to 1.5 µs. So records go
-- into the answer as they are, numbers become text once, and the calls of a batch share what was read of their shard and one
-- entry of the outbox. It stands in the shard of the first of them: Redis keeps or loses all that a script wrote.
--
-- script-protocol.ts says what each field means; a test compares its tables with this file.
--
-- KEYS  one per call: the record of the secret to verify. All other names share its hash tag and are made from it here.
-- ARGV  1 run id of this server
--       2 not after: Redis time in ms
--       3 "1" when the outbox is full
--       4.. one per call, packed: lookup (ten fields, empty without one), searchedList, listed, costMicros,
--           idempotencyHash, usageHash, eventStart, question (callerTeamId, callerWorkspaceIds, wantedScopes)
-- Gives {"OK", now in ms, now in ticks,
--        then one per call, fields between \31: status, reason, usedMicros, sequence, ratePerSecond, arrivalTicks,
--          askedAtTicks; or "CLOSED" | "LATE" | "OUTBOX_FULL" | "CONFLICT" | "SEARCH" (the caller must search the lookup's
--          list of addresses and ask again) | "ELSEWHERE" with the shard of an imported key as its reason (ask there) |
--          "CORRUPT" with the error as its reason,
--        then five per new lookup: call (its place, from 0), lookup, keyRecord, billingRecord, scopes (a list, after the
--          workspace's defaults)}
local MAX_MICROS = 9e15 -- below 2^53: sums stay exact
local MARK_LENGTH = 16 -- of a scope (scope-mark.ts)
local NOT_FOUND = 'INVALID\31NOT_FOUND'
local find, sub, byte, band, concat = string.find, string.sub, string.byte, bit.band, table.concat

local runId, late, outboxFull = ARGV[1], nowMs > tonumber(ARGV[2]), ARGV[3] == '1'
local nowTicksText, timeOfEvent = format('%d', nowTicks), ',"t":' .. nowText
-- What the calls of a batch share: {owner, epoch, writes} by hash tag, and the decoded lists of workspace fields.
local shards, fieldLists = {}, {}
-- What they have taken and is not written yet: how many events, the tag of the shard whose outbox gets them, their JSON in
-- parts, balances (four each: billing key, used, field and number of its sequence), and by the names of their keys the places
-- of those balances, arrival times, and what Idempotency-Keys keep. A call that is alone has none of it, and writes at once.
local batch = #KEYS > 1 and {}
if batch then
  batch.events, batch.parts, batch.length = 0, {}, 0
  batch.balances, batch.balanceAt, batch.arrivals, batch.onceRecords = {}, {}, {}, {}
end

-- Whether the key was granted every wanted scope with all wanted flags. Each wanted scope is a mark and a flag character.
-- workspaceRecords are the workspace's defaults and then its scopes that the key has, each ending in its mark; scopeFlags
-- has one flag character for each of those.
local function granted(wantedScopes, workspaceRecords, scopeFlags)
  local masks = {}
  for i = 2, #workspaceRecords do
    masks[sub(workspaceRecords[i], -1 - MARK_LENGTH, -2)] = byte(scopeFlags, i - 1)
  end
  for at = 1, #wantedScopes, MARK_LENGTH + 1 do
    local mask, flags = masks[sub(wantedScopes, at, at + MARK_LENGTH - 1)] or 0, byte(wantedScopes, at + MARK_LENGTH)
    if mask ~= flags and band(mask, flags) ~= flags then return false end
  end
  return true
end

-- Raises an error where one of these scopes is missing, or an older release wrote it, without its mark.
local function requireMarks(workspaceRecords, fields)
  for i = 2, fields do
    local record = workspaceRecords[i]
    if not find(record, '\0#', 1, true) and not find(record, '\0-\0', 1, true) then error('a scope has no mark') end
  end
end

-- Looks up what the records say to a question. Gives the lookup's fields, the key's record, the billing record's settings
-- and the scopes; nil where the caller has no such key, and after it the shard where it is, if this one points there.
local function lookUp(tag, epoch, writes, key, packedCall, questionAt)
  local callerTeamId, callerWorkspaceIds, wantedScopes = unpackFields('sss', packedCall, questionAt)
  local keyRecord = call('GET', key)
  local state, teamId, workspaceId, keyId, expiresAtMs, validUntilMs, ratePerSecond, addressList, meter, workspaceFields,
    scopeFlags = unpackKeyRecord(keyRecord)
  if not state or teamId ~= callerTeamId then return nil end
  if state == '>' then return nil, workspaceId end
  if validUntilMs ~= '0' and nowMs >= tonumber(validUntilMs) then return nil end
  if callerWorkspaceIds ~= '' and not find(callerWorkspaceIds, ' ' .. workspaceId .. ' ', 1, true) then return nil end

  -- The workspace's defaults, and its scopes that the key was granted.
  local fields = fieldLists[workspaceFields] or cjson.decode(workspaceFields)
  fieldLists[workspaceFields] = fields
  local workspaceRecords = call('HMGET', tag .. 'w:' .. workspaceId, unpack(fields))
  local workspaceRecord = workspaceRecords[1]
  for i = 2, #fields do
    if not workspaceRecords[i] then error('a scope of a workspace is gone') end
  end
  -- The tombstone of a deleted workspace, which has no keys.
  if find(workspaceRecord, '\0-\0', 1, true) then return nil end
  local version, defaultRatePerSecond, defaultAddressList = unpackFields('sss', workspaceRecord)
  if ratePerSecond == '' then ratePerSecond = defaultRatePerSecond end
  if addressList == '' then addressList = defaultAddressList end

  local billingKey, billingRecord, billingId, limitMicros = '', '', '', ''
  if meter ~= '' then
    billingKey = tag .. 'b:' .. workspaceId .. ':' .. meter
    billingRecord = call('HGET', billingKey, 's') or ''
    if billingRecord ~= '' then
      version, billingId, limitMicros = unpackFields('sss', billingRecord)
      if not tonumber(limitMicros) then error('the limit of a billing record is no number') end
    end
  end

  -- Deleted, disabled and expired are decided before the list of addresses. A lookup ends when its key does. An EXPIRED is never
  -- kept: if the clock is set back, the key is valid again.
  local knownRefusal, holdsUntilMs = '', validUntilMs
  if state == 'D' then knownRefusal, addressList = 'DELETED\31DELETED', '*'
  elseif state == 'X' then knownRefusal, addressList = 'DISABLED\31DISABLED', '*'
  elseif expiresAtMs ~= '0' and nowMs >= tonumber(expiresAtMs) then
    knownRefusal, addressList, holdsUntilMs = 'EXPIRED\31EXPIRED', '*', nowText
  else
    if wantedScopes ~= '' and not granted(wantedScopes, workspaceRecords, scopeFlags) then
      requireMarks(workspaceRecords, #fields)
      knownRefusal = 'INVALID_SCOPES\31SCOPE_MISSING'
    end
    if expiresAtMs ~= '0' and (holdsUntilMs == '0' or tonumber(expiresAtMs) < tonumber(holdsUntilMs)) then
      holdsUntilMs = expiresAtMs
    end
  end
  if addressList == '*' then addressList = '' end
  local rateKey, eventIds = tag .. 'r:' .. keyId, ',"k":"' .. keyId .. '","b":"' .. billingId .. '"'
  return {
    epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros, eventIds
  }, keyRecord, billingRecord, workspaceRecords
end

-- Note what a call of a batch takes: its event, and the balance after it.
local function noteEvent(tag, eventStart, eventIds, balance)
  local parts, at = batch.parts, batch.length
  parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4], parts[at + 5] = eventStart, timeOfEvent, eventIds, balance, '\n'
  batch.length, batch.events, batch.tag = at + 5, batch.events + 1, batch.tag or tag
end

local function noteBalance(billingKey, usedText, sequenceField, sequenceText)
  local balances, place = batch.balances, batch.balanceAt[billingKey]
  if not place then
    place = #balances + 1
    batch.balanceAt[billingKey], balances[place] = place, billingKey
  end
  balances[place + 1], balances[place + 2], balances[place + 3] = usedText, sequenceField, sequenceText
end

-- Decides one call. Gives its answer and, where it had to look up, the lookup and what lookUp gives with it.
local function judge(key, packedCall)
  local tag = sub(key, 1, 5)
  local shard = shards[tag]
  if shard == nil then
    shard = openShard(tag .. 'meta', runId, 'epoch', 'writes')
    shards[tag] = shard
  end
  if not shard then return 'CLOSED' end
  if late then return 'LATE' end

  local epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros,
    eventIds, searchedList, listed, costMicros, idempotencyHash, usageHash, eventStart, questionAt =
    unpackFields('ssssssssssssssss', packedCall)
  local shardEpoch, shardWrites = shard[2], shard[3] or '0'
  local lookup, keyRecord, billingRecord, scopes
  if epoch ~= shardEpoch or writes ~= shardWrites or (holdsUntilMs ~= '0' and nowMs >= tonumber(holdsUntilMs)) then
    lookup, keyRecord, billingRecord, scopes = lookUp(tag, shardEpoch, shardWrites, key, packedCall, questionAt)
    if not lookup then return keyRecord and 'ELSEWHERE\31' .. keyRecord or NOT_FOUND end
    epoch, writes, holdsUntilMs, addressList, knownRefusal, ratePerSecond, rateKey, billingKey, limitMicros, eventIds =
      unpack(lookup)
    lookup = concat(lookup, '\0')
  end
  if addressList ~= '' and addressList ~= searchedList then
    return 'SEARCH', lookup, keyRecord, billingRecord, scopes
  end

  local sequenceField, metered, usedText, used, sequence = 'n' .. epoch, limitMicros ~= '', ''
  if metered then
    local place = batch and batch.balanceAt[billingKey]
    if place then
      usedText = batch.balances[place + 1]
      used, sequence = tonumber(usedText), tonumber(batch.balances[place + 3])
    else
      usedText, used, sequence = readUsed(billingKey, sequenceField)
    end
  end
  local limited, interval, latest, arrival = ratePerSecond ~= ''
  if limited then
    local arrivalText = batch and batch.arrivals[rateKey] or call('GET', rateKey)
    interval, latest, arrival = rateLimitAt(arrivalText, tonumber(ratePerSecond))
  end

  local refused = knownRefusal ~= '' and knownRefusal
  if addressList ~= '' and listed == '' then refused = 'INVALID\31IP_NOT_ALLOWED' end

  local onceKey = not refused and idempotencyHash ~= '' and tag .. 'i:' .. sub(rateKey, 8) .. ':' .. idempotencyHash
  local pendingOnce = onceKey and batch and batch.onceRecords[onceKey]
  local onceRecord = onceKey and (pendingOnce or call('GET', onceKey))
  if onceRecord then
    local usageThen, rateLimitThen = unpackFields('ss', onceRecord)
    -- Earlier releases kept the usage itself, with which the event's start ends.
    if usageThen ~= usageHash and ',' .. usageThen ~= sub(eventStart, -1 - #usageThen) then return 'CONFLICT' end
    -- Set the same expiry again only to make a write: WAIT then also covers the first call's debit. From Redis 7.2 on,
    -- WAIT counts a connection's own writes only.
    if not pendingOnce then call('PEXPIREAT', onceKey, call('PEXPIRETIME', onceKey)) end
    return 'VALID\31\31' .. usedText .. '\31\31' .. rateLimitThen, lookup, keyRecord, billingRecord, scopes
  end

  costMicros = tonumber(costMicros)
  if not refused then
    if limited and arrival + interval > latest then refused = 'RATE_LIMITED\31RATE_LIMIT'
    elseif costMicros == 0 or billingKey == '' then -- nothing to debit
    elseif not metered then refused = 'USAGE_LIMITED\31NO_BILLING_RECORD'
    elseif costMicros > min(tonumber(limitMicros), MAX_MICROS) - used then
      refused = 'USAGE_LIMITED\31CREDITS_USED_UP'
    end
  end
  local rateLimit = ratePerSecond
  if refused then
    if limited then rateLimit = ratePerSecond .. '\31' .. format('%d', arrival) end
    return refused .. '\31' .. usedText .. '\31\31' .. rateLimit, lookup, keyRecord, billingRecord, scopes
  end
  if outboxFull and metered then return 'OUTBOX_FULL' end

  local balance, sequenceText, arrivalText = ',"u":0,"s":0,"e":0}', ''
  if metered then
    usedText, sequenceText = format('%d', used + costMicros), format('%d', sequence + 1)
    balance = ',"u":' .. usedText .. ',"s":' .. sequenceText .. ',"e":' .. epoch .. '}'
  end
  if limited then
    arrivalText = format('%d', arrival + interval)
    rateLimit = ratePerSecond .. '\31' .. arrivalText
  end
  -- While the outbox is full, what is kept must not grow; a repetition takes no credits either.
  onceRecord = onceKey and not outboxFull and
    usageHash .. '\0' .. rateLimit .. (limited and '\31' .. nowTicksText or '') .. '\0'

  if batch then
    if not outboxFull then noteEvent(tag, eventStart, eventIds, balance) end
    if metered then noteBalance(billingKey, usedText, sequenceField, sequenceText) end
    if limited then batch.arrivals[rateKey] = arrivalText end
    if onceRecord then batch.onceRecords[onceKey] = onceRecord end
  else
    -- Only writes, the event first: should Redis refuse it, nothing was taken.
    if not outboxFull then call('XADD', tag .. 'outbox', '*', 'e', eventStart .. timeOfEvent .. eventIds .. balance) end
    if metered then call('HSET', billingKey, 'u', usedText, sequenceField, sequenceText) end
    if limited then call('PSETEX', rateKey, '2000', arrivalText) end
    if onceRecord then call('SETEX', onceKey, '60', onceRecord) end
  end
  return 'VALID\31\31' .. usedText .. '\31' .. sequenceText .. '\31' .. rateLimit, lookup, keyRecord, billingRecord, scopes
end

-- Writes what a batch took, the events first. Gives whether Redis took the first write; it takes all others then.
local function writeBatch()
  local tag, balances, refused = batch.tag, batch.balances
  if tag then
    -- Without the last line end.
    refused = redis.pcall('XADD', tag .. 'outbox', '*', 'e', concat(batch.parts, '', 1, batch.length - 1)).err
  end
  for rateKey, arrivalText in pairs(batch.arrivals) do
    if refused then return false end
    refused = redis.pcall('PSETEX', rateKey, '2000', arrivalText).err
  end
  if refused then return false end
  for i = 1, #balances, 4 do call('HSET', balances[i], 'u', balances[i + 1], balances[i + 2], balances[i + 3]) end
  for onceKey, onceRecord in pairs(batch.onceRecords) do call('SETEX', onceKey, '60', onceRecord) end
  -- The count only steers a limit: whatever is wrong with it, the debits have their events.
  if batch.events > 1 then redis.pcall('INCRBY', tag .. 'more', format('%d', batch.events - 1)) end
  return true
end

local calls = #KEYS
local answers, at, done
repeat
  answers, at = { 'OK', nowText, nowTicksText }, calls + 4
  for i = 1, calls do
    -- pcall: one corrupt record must not spoil the other calls.
    local decided, answer, lookup, keyRecord, billingRecord, scopes = pcall(judge, KEYS[i], ARGV[i + 3])
    if not decided then
      answer = type(answer) == 'table' and answer.err or tostring(answer)
      -- At its memory limit Redis refuses the first write of a call, so nothing was taken.
      answer = find(answer, '^OOM') and 'OUTBOX_FULL' or 'CORRUPT\31' .. answer
    end
    answers[i + 3] = answer
    if lookup then
      answers[at], answers[at + 1], answers[at + 2] = format('%d', i - 1), lookup, keyRecord
      answers[at + 3], answers[at + 4] = billingRecord, scopes
      at = at + 5
    end
  end
  done = not batch or writeBatch()
  batch = nil
until done
return answers
